package childproc

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Seal marks every descriptor of this process from 3 on as close-on-exec, so that no child started later inherits one.
// Go opens its own that way; native libraries do not (UCX keeps a dozen open), and a child that holds a copy of a
// socket keeps a connection alive whose owner is dead. Call it right before starting a child: os/exec passes ExtraFiles
// in spite of the mark.
func Seal() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return err
	}
	return sealEach() // a kernel before 5.11, or a sandbox without the call
}

func sealEach() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		unix.CloseOnExec(fd) // no effect if it was closed since it was listed
	}
	return nil
}
