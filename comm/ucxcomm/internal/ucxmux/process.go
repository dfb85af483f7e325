package ucxmux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/proc/hostid"
)

// Process identifies a process for those that can see it.
type Process struct {
	// Space identifies the machine and the PID namespace; "" if unknown.
	Space string `json:"space,omitempty"`
	// PID is the process id.
	PID int `json:"pid,omitempty"`
	// Start is the start time of the process, in ticks since boot: process ids are reused.
	Start uint64 `json:"start,omitempty"`
}

// self returns this process.
var self = sync.OnceValue(func() Process {
	p := Process{Space: hostid.In("pid"), PID: os.Getpid()}
	p.Start, _ = startOf(p.PID)
	return p
})

// startOf returns field 22 of /proc/PID/stat. The name in field 2 may contain any character.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const after = 22 - 3 // the first one after the name is field 3
	if len(fields) <= after {
		return 0, errors.New("no start time")
	}
	return strconv.ParseUint(string(fields[after]), 10, 64)
}

// visible reports whether this process can observe the process.
func (p Process) visible() bool {
	return p.Space != "" && p.Space == self().Space && p.PID > 0 && p.Start > 0
}

// errGone is returned for a process that has ended.
var errGone = errors.New("process has ended")

// watch opens a descriptor that becomes readable when the process ends; it returns errGone if it has.
func (p Process) watch() (*os.File, error) {
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, errGone
	}
	if err != nil {
		return nil, err // a kernel before 5.10, or a sandbox
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	// Checked after opening: the process id cannot be reused while the descriptor is open.
	if start, err := startOf(p.PID); err != nil || start != p.Start {
		_ = f.Close()
		return nil, errGone
	}
	return f, nil
}

// awaitEnd returns when the process of a descriptor of watch has ended, or the descriptor was closed.
func awaitEnd(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(hasEnded)
}

// hasEnded reports whether the process of a descriptor has ended; a zombie has.
func hasEnded(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// alive returns errGone for a visible process that has ended.
func (p Process) alive() error {
	if !p.visible() {
		return nil
	}
	f, err := p.watch()
	if err == nil {
		raw, rerr := f.SyscallConn()
		if rerr == nil {
			_ = raw.Control(func(fd uintptr) {
				if hasEnded(fd) {
					err = errGone
				}
			})
		}
		_ = f.Close()
	}
	if errors.Is(err, errGone) {
		return err
	}
	return nil // or it is unknown
}

// whenGone calls do when the process has ended, unless ctx ends first. It does nothing for a process that is not
// visible, and does not block.
func (p Process) whenGone(ctx context.Context, do func()) {
	if !p.visible() || p.PID == self().PID {
		return
	}
	f, err := p.watch()
	if err != nil {
		if errors.Is(err, errGone) {
			go do()
		}
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	go func() {
		defer f.Close()
		if awaitEnd(f) == nil && stop() {
			do()
		}
	}()
}
