// Package childproc starts programs that do not outlive this process.
package childproc

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Child is a started program.
type Child struct {
	// Done is closed when the program has ended; Err is then the result of Wait.
	Done <-chan struct{}
	Err  error
}

// Start starts a command in its own process group, so that Ctrl-C only reaches this process, which ends the child. When
// the command's context ends, the whole group is killed, including the child of a wrapper script. read, if not nil,
// reads the command's pipes to their end and is called before the command is waited for.
func Start(cmd *exec.Cmd, read func()) (*Child, error) {
	done := make(chan struct{})
	c := &Child{Done: done}
	cmd.WaitDelay = 2 * time.Second
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if cmd.Cancel != nil { // made by exec.CommandContext
		cmd.Cancel = func() error { return Kill(cmd) }
	}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the thread that forked ends, so that thread is kept until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		if read != nil {
			read()
		}
		c.Err = cmd.Wait()
		close(done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// Kill ends a started command and everything in its group.
func Kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
