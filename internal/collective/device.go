package collective

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
)

// Carrier moves the device memory of one group. The group asks it for one collective at a time, in the order that all
// ranks have, and only for calls that all ranks have agreed on: sizes, types and roots are right. It owns nothing of
// the group, which closes it.
//
// Everything is ordered by streams: Run makes its work wait for the ready events of the buffers and returns when the
// result's ready event stands for it, which is long before the data is there. No call synchronises a stream.
type Carrier interface {
	// Name is what carries the data, such as "nccl".
	Name() string
	// Run begins one collective. The buffers are held by the caller until it returns; work that goes on holds them
	// itself.
	Run(ctx context.Context, c *Call) error
	// Send and Recv begin a message of device memory: messages of one tag are in the order of these
	// calls. wait is called once, and returns when the operation is done; the buffer is held until then. They do not
	// wait for collectives.
	Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) (wait func() error)
	Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (wait func() (int, error))
	// Close ends it when the group is closed. What is under way on the device may go on.
	Close() error
}

// A Checker is a Carrier that cannot do everything. What it says is wrong with a call is told to all ranks, which then
// all fail with it before anything is done; "" is nothing.
type Checker interface {
	Check(c *Call) (bad string)
}

// A Flusher is a Carrier whose work goes on after Run has returned. Flush returns when all of it is done on this rank:
// results are there, and what was sent may be written or freed.
type Flusher interface {
	Flush(ctx context.Context) error
}

// Flush waits until what the group has begun on this rank's device is done.
func (g *Group) Flush(ctx context.Context) error {
	if f, ok := g.carrier.(Flusher); ok {
		return f.Flush(ctx)
	}
	return nil
}

// ErrNoCarrier is a collective on device memory in a group without a Carrier.
var ErrNoCarrier = errors.New("nothing carries device memory among these ranks")

// SetCarrier gives the group what carries its device memory; the group owns it from then on. It must be called before
// the first call on device memory. Sub-groups and lanes need one each.
func (g *Group) SetCarrier(c Carrier) { g.carrier = c }

// Carrier is what SetCarrier gave it.
func (g *Group) Carrier() Carrier { return g.carrier }

// place finds the memory of a collective: that of a device is the carrier's, of other buffers it is the bytes.
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

// bytes lets Bytes be the memory of a buffer that the host reaches.
func (m *Memory) bytes() {
	if m.Buffer != nil {
		m.Bytes = m.Buffer.Bytes()
	}
}

func isDevice(b *mem.Buffer) bool { return b != nil && !b.Kind().HostAccessible() }

// kind reports what kind of memory it is, and whether there is any.
func (m *Memory) kind() (mem.Kind, bool) {
	if m.Buffer != nil {
		return m.Buffer.Kind(), true
	}
	return mem.Host, m.Bytes != nil
}

// mixed says what is wrong with a call on memory of both sorts.
func (c *Call) mixed() string {
	send, sends := c.Send.kind()
	recv, recvs := c.Recv.kind()
	if !sends || !recvs || send.HostAccessible() == recv.HostAccessible() {
		return ""
	}
	return fmt.Sprintf("send is %v memory, recv is %v memory: both must be of one sort", send, recv)
}

// startSend begins to send a message and returns how to wait for it.
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

// startRecv begins to receive a message and returns how to wait for it.
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

// check says what is wrong with a device call beside its sizes.
func (g *Group) check(c *Call) string {
	if bad := c.mixed(); bad != "" {
		return bad
	}
	if k, ok := g.carrier.(Checker); ok {
		return k.Check(c)
	}
	return ""
}

// extent is where memory is, and how much.
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
