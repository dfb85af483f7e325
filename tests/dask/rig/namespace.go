package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/internal/testkit/leak"
)

// insideVariable tells a binary that it is in a network namespace of its own.
const insideVariable = "MILLSTREAM_DASK_INSIDE"

// Main is TestMain: the binary becomes what the rig starts it as, runs itself in a network namespace when the
// protocol is ucxx, or runs the tests and looks for leaks. It does not return.
func Main(m *testing.M) {
	millstream.Main()
	cli.Serve()
	if Current().Protocol == "ucxx" && os.Getenv(insideVariable) == "" {
		os.Exit(again())
	}
	if os.Getenv(insideVariable) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "the loopback of the namespace: %v: %s\n", err, out)
			os.Exit(1)
		}
	}
	os.Exit(leak.Main(m))
}

// ucxEnv is what our side needs to meet Python's over UCX: the release of UCX that Python has, since UCX connects
// only like ones by socket address, and the same transports.
func ucxEnv() []string {
	env := []string{"UCX_TLS=" + ucxTransports}
	if os.Getenv("MILLSTREAM_UCX_LIBRARY") != "" {
		return env
	}
	folders := []string{filepath.Join(Root(), ".local", "venv")}
	if python, err := Current().Python(); err == nil {
		folders = append([]string{filepath.Join(filepath.Dir(python), "..")}, folders...)
	}
	for _, folder := range folders {
		// pip, conda
		for _, place := range []string{"lib/python3*/site-packages/libucx/lib/libucp.so.0", "lib/libucp.so.0"} {
			if found, _ := filepath.Glob(filepath.Join(folder, place)); len(found) > 0 {
				return append(env, "MILLSTREAM_UCX_LIBRARY="+found[0])
			}
		}
	}
	return env
}

// ucxTransports are those of all processes: in a namespace there is nothing but its loopback.
const ucxTransports = "tcp,self"

// again runs the binary with the same arguments in a namespace.
func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(append(os.Environ(), insideVariable+"=1"), ucxEnv()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		fmt.Fprintf(os.Stderr, "a network namespace for ucxx: %v; be root, or allow user namespaces\n", err)
		return 1
	}
}
