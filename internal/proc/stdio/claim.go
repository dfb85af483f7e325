// Package stdio keeps a process's standard output clean.
package stdio

import (
	"os"

	"golang.org/x/sys/unix"
)

// Claim keeps standard output for the program's own results and sends what
// native libraries print there to standard error: UCX logs its warnings to
// file descriptor 1, where they would break --json and the conversation
// between a benchmark and its children. The result is a duplicate that
// children do not inherit. Without a usable standard error nothing is changed
// and os.Stdout is returned.
func Claim() *os.File {
	fd, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.Stdout
	}
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		unix.Close(fd)
		return os.Stdout
	}
	return os.NewFile(uintptr(fd), "/dev/stdout")
}
