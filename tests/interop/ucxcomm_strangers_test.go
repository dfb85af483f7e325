package interop

import (
	"net"
	"syscall"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/tests/interop/pypeer"
)

// Thousands who connect to the port and say nothing, or nothing of UCX's, do not keep a
// listener from serving others. (UCX 1.13 does not survive more than a thousand; the
// peers' release does.)
func TestUCXCommHalfOpen(t *testing.T) {
	r := newUCXRig(t, "ucxx", ucxcomm.Settings{})
	l, err := r.b.Listen(r.ctx, "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, loc := commaddr.Parse(l.ContactAddr())
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(5000, int(limit.Cur-500)/2) // each has a descriptor at both ends, which are in this process
	for i := range n {
		var d net.Dialer
		c, err := d.DialContext(r.ctx, "tcp", loc)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		if i%2 == 0 {
			_, _ = c.Write([]byte("\x10\x00\x00\x00\x00\x00\x00\x00not UCX's"))
		}
	}
	served := async(func() error {
		c, err := l.Accept(r.ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = echo(r.ctx, c)
		return nil
	})
	ep := r.do("connect", pypeer.Command{"address": l.ContactAddr(), "timeout": 60}).EP
	r.do("rtt", pypeer.Command{"ep": ep, "count": 3})
	r.do("close", pypeer.Command{"ep": ep})
	if err := <-served; err != nil {
		t.Error(err)
	}
}
