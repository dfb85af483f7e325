// Package commtest checks the behavior that every backend of package comm must have. A backend runs its tests:
//
//	func TestConformance(t *testing.T) {
//		commtest.Run(t, commtest.Factory{Address: "tcp://127.0.0.1:0"})
//	}
package commtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

// Factory specifies how to create comms of the backend under test.
type Factory struct {
	// Network is the network of the comms (default comm.Default).
	Network comm.Network
	// Address is the address to listen on.
	Address string
	// Dial and Listen configure both sides.
	Dial   comm.DialConfig
	Listen comm.ListenConfig
	// Large is the size in bytes of the largest frame (default 65 MiB).
	Large int
	// Rounds is the number of connections that are opened and closed (default 1000).
	Rounds int
	// Leak are options of the leak check, for resources that the backend creates once per process.
	Leak []leak.Option
}

// limit is the time limit of a test, also on a slow machine.
const limit = 2 * time.Minute

// Run runs all tests.
func Run(t *testing.T, f Factory) {
	if f.Network == nil {
		f.Network = comm.Default
	}
	if f.Large == 0 {
		f.Large = 65 << 20
	}
	if f.Rounds == 0 {
		f.Rounds = 1000
	}
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"PingPong", pingPong},
		{"Frames", manyFrames},
		{"Large", large},
		{"BothWays", bothWays},
		{"Turns", turns},
		{"Ownership", ownership},
		{"Addresses", addresses},
		{"Info", info},
		{"NoFrames", noFrames},
		{"DoneByPeer", doneByPeer},
		{"CloseDelivers", closeDelivers},
		{"CloseWhileReading", closeWhileReading},
		{"CloseWhileWriting", closeWhileWriting},
		{"AbruptClose", abruptClose},
		{"Idempotent", idempotent},
		{"ReadContext", readContext},
		{"WriteContext", writeContext},
		{"WriteStalled", writeStalled},
		{"Listener", listener},
		{"NoListener", noListener},
		{"DialContext", dialContext},
		{"Crowd", crowd},
		{"Rounds", rounds},
	} {
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t, f.Leak...)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c.run(&rig{T: t, Factory: f, ctx: ctx})
		})
	}
}

// rig is the environment of a test.
type rig struct {
	*testing.T
	Factory
	ctx context.Context
}

func (r *rig) listen() comm.Listener {
	r.Helper()
	l, err := r.Network.Listen(r.ctx, r.Address, r.Listen)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { l.Close() })
	return l
}

// connect dials a listener and returns the dialing end and the accepted one.
func (r *rig) connect(l comm.Listener) (a, b comm.Comm) {
	r.Helper()
	accepted := make(chan error, 1)
	go func() {
		var err error
		b, err = l.Accept(r.ctx)
		accepted <- err
	}()
	a, err := r.Network.Dial(r.ctx, l.ContactAddr(), r.Dial)
	if err != nil {
		r.Fatal(err)
	}
	if err := <-accepted; err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { a.Abort(); b.Abort() })
	return a, b
}

// pair returns the two ends of a comm.
func (r *rig) pair() (a, b comm.Comm) {
	r.Helper()
	l := r.listen()
	a, b = r.connect(l)
	if err := l.Close(); err != nil {
		r.Fatal(err)
	}
	return a, b
}

// bothEnds runs a test with each end in the first role.
func (r *rig) bothEnds(f func(r *rig, a, b comm.Comm)) {
	for _, name := range []string{"dialer", "listener"} {
		r.T.Run(name, func(t *testing.T) {
			sub := &rig{T: t, Factory: r.Factory, ctx: r.ctx}
			a, b := sub.pair()
			if name == "listener" {
				a, b = b, a
			}
			f(sub, a, b)
		})
	}
}

// period is the length after which test data repeats: a prime, so that wrongly joined frames do not match by chance.
const period = 4099

// base returns one period of the test data of a seed.
func base(seed int) []byte {
	b := make([]byte, period)
	for i := range b {
		b[i] = byte(seed + 7*i + i>>8)
	}
	return b
}

// fill returns n bytes of the test data of a seed.
func fill(n, seed int) []byte {
	b := make([]byte, n)
	for done := copy(b, base(seed)); done > 0 && done < n; {
		done += copy(b[done:], b[:done])
	}
	return b
}

// isFilled reports whether b is n bytes of that data.
func isFilled(b []byte, n, seed int) bool {
	if len(b) != n {
		return false
	}
	want := base(seed)
	for len(b) > period {
		if !bytes.Equal(b[:period], want) {
			return false
		}
		b = b[period:]
	}
	return bytes.Equal(b, want[:len(b)])
}

// message returns a message with frames of the given sizes.
func message(seed int, sizes ...int) *wire.Message {
	m := new(wire.Message)
	for i, n := range sizes {
		m.Frames = append(m.Frames, wire.HeapFrame(fill(n, seed+i)))
	}
	return m
}

func check(m *wire.Message, seed int, sizes ...int) error {
	if len(m.Frames) != len(sizes) {
		return fmt.Errorf("got %d frames, want %d", len(m.Frames), len(sizes))
	}
	for i, n := range sizes {
		if !isFilled(m.Frames[i].Bytes(), n, seed+i) {
			return fmt.Errorf("frame %d: got %d bytes or wrong contents, want %d bytes", i, m.Frames[i].Len(), n)
		}
	}
	return nil
}

func (r *rig) write(c comm.Comm, m *wire.Message) {
	r.Helper()
	if err := c.Write(r.ctx, m); err != nil {
		r.Fatal(err)
	}
}

// read reads a message and compares it.
func (r *rig) read(c comm.Comm, seed int, sizes ...int) {
	r.Helper()
	m, err := c.Read(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	if err := check(m, seed, sizes...); err != nil {
		r.Fatal(err)
	}
	m.Release()
}

// alive checks that messages pass in both directions.
func (r *rig) alive(a, b comm.Comm) {
	r.Helper()
	for _, err := range []error{a.Err(), b.Err()} {
		if err != nil {
			r.Fatalf("comm has ended: %v", err)
		}
	}
	r.write(a, message(1, 10))
	r.read(b, 1, 10)
	r.write(b, message(2, 20))
	r.read(a, 2, 20)
}

// ended waits until a comm has ended.
func (r *rig) ended(c comm.Comm) {
	r.Helper()
	select {
	case <-c.Done():
	case <-r.ctx.Done():
		r.Fatal("Done is not closed")
	}
	if err := c.Err(); !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Err: got %v, want ErrClosed", err)
	}
	if err := c.Write(r.ctx, message(0, 1)); !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Write on an ended comm: got %v, want ErrClosed", err)
	}
}

// endedRead checks that a comm has ended and has no more messages.
func (r *rig) endedRead(c comm.Comm) {
	r.Helper()
	if m, err := c.Read(r.ctx); !errors.Is(err, comm.ErrClosed) {
		r.Errorf("Read on an ended comm: got %v, %v, want ErrClosed", m, err)
	}
	r.ended(c)
}

// async runs f in a goroutine.
func async(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}
