package collective

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
)

// Carrier moves the device memory of one group. The group calls it for one collective at a time, in the order of all
// ranks, and only for calls on which all ranks agree: sizes, types and roots are valid. The group owns and closes it.
//
// Operations are ordered by streams: Run makes its work wait for the ready events of the buffers and returns when the
// ready event of the result is set, long before the data has arrived. No call synchronizes a stream.
type Carrier interface {
	// Name returns the name of the backend, such as "nccl".
	Name() string
	// Run starts one collective. The caller holds the buffers until Run returns; work that continues retains them
	// itself.
	Run(ctx context.Context, c *Call) error
	// Send and Recv start a message of device memory. Messages with the same tag are in the order of these calls. wait
	// must be called once and waits for the operation; the buffer is held until then. They do not wait for collectives.
	Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) (wait func() error)
	Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (wait func() (int, error))
	// Close closes the carrier with its group. Work on the device may continue.
	Close() error
}

// Checker is implemented by a Carrier that does not support all calls. Check returns why a call is invalid, "" if it is
// not. The reason is sent to all ranks, which fail with it before anything is done.
type Checker interface {
	Check(c *Call) (bad string)
}

// Flusher is implemented by a Carrier whose work continues after Run. Flush waits until all of it is done on this rank:
// results are complete, and memory that was sent may be written or freed.
type Flusher interface {
	Flush(ctx context.Context) error
}

// Flush waits for the work that the group has started on the device of this rank.
func (g *Group) Flush(ctx context.Context) error {
	if f, ok := g.carrier.(Flusher); ok {
		return f.Flush(ctx)
	}
	return nil
}

// ErrNoCarrier is returned by collectives on device memory in a group without a Carrier.
var ErrNoCarrier = errors.New("the group has no carrier for device memory")

// SetCarrier sets the carrier for device memory; the group owns it from then on. It must be called before the first
// call on device memory. Sub-groups and duplicates need separate carriers.
func (g *Group) SetCarrier(c Carrier) { g.carrier = c }

// Carrier returns the carrier of the group, nil without one.
func (g *Group) Carrier() Carrier { return g.carrier }

// place determines the memory of a collective. The carrier handles device memory; other buffers become bytes.
func (g *Group) place(c *Call) error {
	c.OnDevice = c.OnDevice || isDevice(c.Send.Buffer) || isDevice(c.Recv.Buffer)
	if !c.OnDevice {
		c.Send.bytes()
		c.Recv.bytes()
		return nil
	}
	if g.carrier == nil {
		return fmt.Errorf("collective: %v: %w", c.Code, ErrNoCarrier)
	}
	return nil
}

// bytes sets Bytes to the memory of a buffer that the host can access.
func (m *Memory) bytes() {
	if m.Buffer != nil {
		m.Bytes = m.Buffer.Bytes()
	}
}

func isDevice(b *mem.Buffer) bool { return b != nil && !b.Kind().HostAccessible() }

// kind returns the kind of memory, and whether there is any.
func (m *Memory) kind() (mem.Kind, bool) {
	if m.Buffer != nil {
		return m.Buffer.Kind(), true
	}
	return mem.Host, m.Bytes != nil
}

// checkMixed returns an error text if a call mixes host and device memory.
func (c *Call) checkMixed() string {
	send, sends := c.Send.kind()
	recv, recvs := c.Recv.kind()
	if !sends || !recvs || send.HostAccessible() == recv.HostAccessible() {
		return ""
	}
	return fmt.Sprintf("send is %v memory, recv is %v memory: use one kind for both", send, recv)
}

// startSend starts to send a message and returns a function that waits for it.
func (g *Group) startSend(ctx context.Context, to int, tag uint64, m Memory) (wait func() error) {
	if !isDevice(m.Buffer) {
		m.bytes()
		return g.p2p.send(ctx, to, tag, memory{bytes: m.Bytes})
	}
	if err := g.checkSend(to, m); err != nil {
		return func() error { return err }
	}
	return g.carrier.Send(ctx, to, tag, m.Buffer)
}

// startRecv starts to receive a message and returns a function that waits for it.
func (g *Group) startRecv(ctx context.Context, from int, tag uint64, m Memory) (wait func() (int, error)) {
	if !isDevice(m.Buffer) {
		m.bytes()
		return g.p2p.recv(ctx, from, tag, memory{bytes: m.Bytes})
	}
	err := g.checkPeer(from)
	if err == nil && g.carrier == nil {
		err = fmt.Errorf("collective: Recv: %w", ErrNoCarrier)
	}
	if err != nil {
		return func() (int, error) { return 0, err }
	}
	return g.carrier.Recv(ctx, from, tag, m.Buffer)
}

// check returns why a device call is invalid for reasons other than its sizes.
func (g *Group) check(c *Call) string {
	if bad := c.checkMixed(); bad != "" {
		return bad
	}
	if k, ok := g.carrier.(Checker); ok {
		return k.Check(c)
	}
	return ""
}

// extent is the address and the length of memory.
type extent struct {
	addr uintptr
	len  int
}

func extentOf(b *mem.Buffer) extent {
	if b == nil {
		return extent{}
	}
	return extent{b.Addr(), b.Len()}
}

func (e extent) end() uintptr { return e.addr + uintptr(e.len) }
