package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// claimStdout keeps standard output for the command's own results and sends
// what native libraries print there to standard error: UCX logs its warnings
// to file descriptor 1, where they would break --json and the conversation
// between a benchmark and its children. Without a usable standard error
// nothing is changed.
func claimStdout() *os.File {
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
