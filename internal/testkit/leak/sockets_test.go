package leak

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIPSockets(t *testing.T) {
	list := func() string {
		t.Helper()
		s, err := IPSockets(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(s, "\n")
	}
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	before := list()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if got := list(); strings.Count(got, "\n")-strings.Count(before, "\n") < 1 || !strings.Contains(got, "tcp ") ||
		!strings.Contains(got, "udp ") {
		t.Errorf("with a port of tcp and one of udp there are:\n%s\nbefore:\n%s", got, before)
	}
	_, _ = l.Close(), u.Close()
	if got := list(); got != before {
		t.Errorf("when they are closed there are:\n%s\nbefore:\n%s", got, before)
	}
	if _, err := IPSockets(1 << 30); err == nil {
		t.Error("a process that there is not")
	}
}
