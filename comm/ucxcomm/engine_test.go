//go:build cgo

package ucxcomm

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
)

func TestSettings(t *testing.T) {
	a := Settings{Options: map[string]string{"UCX_TLS": "tcp", "net-devices": "x"}}
	b := Settings{Options: map[string]string{"tls": "tcp", "NET-DEVICES": "x"}, MultiBuffer: true,
		PlainTransports: true}
	if a.key() != b.key() || a.options()["TLS"] != "tcp" || a.options()["NET_DEVICES"] != "x" {
		t.Errorf("%q and %q", a.key(), b.key())
	}
	for _, other := range []Settings{{}, {Library: "/x"}, {Options: map[string]string{"TLS": "tcp,self"}}} {
		if a.key() == other.key() {
			t.Errorf("%+v shares an engine with %+v", a, other)
		}
	}
	six := a.forHost("::1")
	if six.options()["TCP_AF_PRIO"] != "inet6,inet" || a.options()["TCP_AF_PRIO"] != "" {
		t.Errorf("for IPv6: %v, and otherwise %v", six.Options, a.Options)
	}
	if s := a.forHost("10.0.0.1"); s.key() != a.key() {
		t.Errorf("for IPv4: %v", s.Options)
	}
	own := Settings{Options: map[string]string{"TCP_AF_PRIO": "inet"}}
	if s := own.forHost("::1"); s.options()["TCP_AF_PRIO"] != "inet" {
		t.Errorf("the user's choice was changed: %v", s.Options)
	}
	options := map[string]string{"TLS": "tcp"}
	n := NewNetwork(Settings{Options: options}).(ownNetwork)
	options["TLS"] = "changed"
	if got := n.backends["ucx"].(*backend).settings.Options["TLS"]; got != "tcp" {
		t.Errorf("TLS of a network whose options were changed later: got %q, want tcp", got)
	}
}

func engineCount() int {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	return len(engines.m)
}

// All comms and listeners with equal settings share one engine, which ends after the last.
func TestEngineLife(t *testing.T) {
	ctx := testContext(t)
	s := Settings{Options: map[string]string{"TLS": "tcp,self", "RNDV_THRESH": "12345"}}
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[*engine]int{}
	for range 8 {
		group.Go(func() {
			e, err := openEngine(ctx, s)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			seen[e]++
			mu.Unlock()
		})
	}
	group.Wait()
	if len(seen) != 1 {
		t.Fatalf("%d engines", len(seen))
	}
	for e := range seen {
		for range 8 {
			e.release()
		}
	}
	// A comm outlives its listener, and the engine both.
	b := newBackend("ucxx", s)
	l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	_, loc := commaddr.Parse(l.ContactAddr())
	c, err := b.Dial(ctx, loc, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	z, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	time.Sleep(3 * engineLinger)
	if err := c.Write(ctx, msg([]byte("still there"))); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Read(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	z.Close()
	for engineCount() > 0 {
		if ctx.Err() != nil {
			t.Fatal("an engine has no end")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// An engine that could not be made is tried again, and waiting for one can be given up.
func TestEngineFails(t *testing.T) {
	ctx := testContext(t)
	bad := Settings{Library: "/nowhere/libucp.so.0"}
	for range 2 {
		if _, err := openEngine(ctx, bad); err == nil {
			t.Fatal("an engine without a library")
		}
	}
	slow := Settings{Options: map[string]string{"TLS": "self"}, Library: "/nowhere/slow/libucp.so.0"}
	engines.mu.Lock()
	if engines.m[bad.key()] != nil { // others may be there still, of earlier tests
		t.Error("an engine that could not be made is kept")
	}
	if engines.m == nil {
		engines.m = map[string]*engine{}
	}
	e := &engine{key: slow.key(), made: make(chan struct{}), refs: 1} // somebody else is at it
	engines.m[e.key] = e
	engines.mu.Unlock()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := openEngine(ended, slow); err == nil {
		t.Error("an engine that is not made")
	}
	engines.mu.Lock()
	delete(engines.m, e.key)
	engines.mu.Unlock()
}

// What a peer says on the control that no Millstream program says ends it.
func TestTetherRefuses(t *testing.T) {
	for _, b := range [][]byte{{}, {'?'}, {tetherReady}, {tetherReady, 1, 2}, {tetherFinal}, {tetherFinal, 1, 1},
		{tetherCredit, 1}} {
		w := &controlChannel{ready: make(chan readiness, 1), final: make(chan bool, 1), ended: make(chan struct{})}
		if w.take(b) == nil {
			t.Errorf("%q was taken", b)
		}
	}
	w := &controlChannel{ready: make(chan readiness, 1), final: make(chan bool, 1), ended: make(chan struct{})}
	for _, twice := range [][]byte{{tetherReady, 1, 0, 0, 1, 0}, {tetherFinal, 1}} {
		if w.take(twice) != nil || w.take(twice) == nil {
			t.Errorf("%q can be said once", twice)
		}
	}
	if r := <-w.ready; !r.ok || r.window != 1<<16 {
		t.Errorf("ready: %+v", r)
	}
	// Credit for what was never sent opens no window.
	l := &dataLink{sent: 100, taken: 50, grown: make(chan struct{}, 1)}
	for _, n := range []uint64{101, 49, 1 << 63} {
		if l.addCredit(n); l.taken != 50 {
			t.Errorf("credit %d was taken", n)
		}
	}
	if l.addCredit(80); l.taken != 80 {
		t.Error("honest credit was not taken")
	}
}

func FuzzTether(f *testing.F) {
	for _, b := range []string{"U\x01\x00\x00\x01\x00", "F\x01", "C\x01\x02\x03\x04\x05\x06\x07\x08", "E", ""} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) > 0 && b[0] == tetherData || len(b) > 0 && b[0] == tetherEnd {
			return // goes to the lifeline of package ucx, which has tests of its own
		}
		l := &dataLink{sent: 100, grown: make(chan struct{}, 1)}
		w := &controlChannel{ready: make(chan readiness, 1), final: make(chan bool, 1), ended: make(chan struct{}),
			credit: l.addCredit}
		_ = w.take(b)
		if l.taken > l.sent {
			panic("credit for what was never sent")
		}
	})
}
