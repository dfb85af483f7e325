//go:build chaos

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// insideVariable tells a test that it is alone in namespaces of its own.
const insideVariable = "MILLSTREAM_CHAOS_INSIDE"

// inside runs the rest of a test in a process with its own network and mounts, where it is root and can do
// no harm: links, addresses and file systems that it makes end with it. It returns true in that process.
func inside(t *testing.T) bool {
	if os.Getenv(insideVariable) == t.Name() {
		ip(t, "link", "set", "lo", "up")
		// What is mounted from here on stays here.
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatalf("mounts of our own: %v", err)
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1",
		"-test.timeout=20m")
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Fatal("failed, see above")
	case err != nil:
		t.Fatalf("a process with namespaces of its own: %v; be root, or allow user namespaces", err)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatal("the test did not run")
	}
	return false
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// bridgeHost is the address of this process on the bridge.
const bridgeHost = "10.77.0.1"

// bridge makes the network that hosts are plugged into.
func bridge(t *testing.T) {
	ip(t, "link", "add", "mill0", "type", "bridge")
	ip(t, "addr", "add", bridgeHost+"/24", "dev", "mill0")
	ip(t, "link", "set", "mill0", "up")
}

// host is a process in a network namespace of its own, with a cable to the bridge.
type host struct {
	cable, address string
}

// plug gives a process, which was started with a network namespace of its own, an address on the bridge.
func plug(t *testing.T, number, pid int) host {
	h := host{cable: fmt.Sprintf("mill%dv", number), address: fmt.Sprintf("10.77.0.%d", number+10)}
	ip(t, "link", "add", h.cable, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid))
	ip(t, "link", "set", h.cable, "master", "mill0", "up")
	inNS := func(args ...string) {
		t.Helper()
		args = append([]string{"-t", strconv.Itoa(pid), "-n", "ip"}, args...)
		if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
			t.Fatalf("nsenter %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	inNS("link", "set", "lo", "up")
	inNS("addr", "add", h.address+"/24", "dev", "eth0")
	inNS("link", "set", "eth0", "up")
	return h
}

// pull cuts the cable: packets vanish, connections stay as they are. insert mends it.
func (h host) pull(t *testing.T)   { ip(t, "link", "set", h.cable, "down") }
func (h host) insert(t *testing.T) { ip(t, "link", "set", h.cable, "up") }
