package collective

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
)

// Code is a collective, for carriers of device memory.
type Code = callCode

// The collectives that a Carrier is asked for.
const (
	AllReduceCode     = callAllReduce
	ReduceCode        = callReduce
	BroadcastCode     = callBroadcast
	AllGatherCode     = callAllGather
	AllGatherVCode    = callAllGatherV
	GatherCode        = callGather
	GatherVCode       = callGatherV
	ScatterCode       = callScatter
	ScatterVCode      = callScatterV
	ReduceScatterCode = callReduceScatter
	AllToAllCode      = callAllToAll
	AllToAllVCode     = callAllToAllV
)

// DeviceCall is a collective on device memory, with the arguments of the Group's method of the same name. Broadcast has
// one buffer, in both Send and Recv. What a rank does not look at is nil: Recv of a rooted gathering, Send of a rooted
// scattering, elsewhere than on root.
type DeviceCall struct {
	Code       Code
	Kind       Kind
	Op         Op
	Root       int
	Send, Recv *mem.Buffer
	// Counts are in elements: the ranks' of a V form, AllToAllV's of Send. RecvCounts are AllToAllV's of Recv.
	Counts, RecvCounts []int
}

// Carrier moves the device memory of one group. The group asks it for one collective at a time, in the order that all
// ranks have, and only for calls that all ranks have agreed on: sizes, types and roots are right. It owns nothing of the
// group, which closes it.
//
// Everything is ordered by streams: Run makes its work wait for the ready events of the buffers and returns when the
// result's ready event stands for it, which is long before the data is there. No call synchronises a stream.
type Carrier interface {
	// Name is what carries the data, such as "nccl".
	Name() string
	// Run begins one collective. The buffers are held by the caller until it returns; work that goes on holds them itself.
	Run(ctx context.Context, c *DeviceCall) error
	// Send and Recv begin the Group's Send and Recv on device memory: messages of one tag are in the order of these
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
	Check(c *DeviceCall) (bad string)
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
// the first use of Device. Sub-groups and lanes need one each.
func (g *Group) SetCarrier(c Carrier) { g.carrier = c }

// Carrier is what SetCarrier gave it.
func (g *Group) Carrier() Carrier { return g.carrier }

// Device carries a collective on device memory out: the ranks tell each other what they call, as for host memory, and
// the group's Carrier does it. It returns when the ready event of the result stands for it.
func (g *Group) Device(ctx context.Context, c DeviceCall) error {
	if g.carrier == nil {
		return fmt.Errorf("collective: %v: %w", c.Code, ErrNoCarrier)
	}
	return g.do(ctx, c.call())
}

// StartDevice is Device as a Request.
func (g *Group) StartDevice(ctx context.Context, c DeviceCall) *Request {
	if g.carrier == nil {
		r := newRequest()
		r.finish(0, fmt.Errorf("collective: %v: %w", c.Code, ErrNoCarrier))
		return r
	}
	return g.start(ctx, c.call())
}

// Do carries a collective out on buffers of any kind: Device on those of a device, the method of the same name on what
// the host reaches, whose last writes must be done. A call with both sorts is refused, on every rank.
func (g *Group) Do(ctx context.Context, c DeviceCall) error {
	if c.onDevice() {
		return g.Device(ctx, c)
	}
	return g.do(ctx, c.host())
}

// StartDo is Do as a Request.
func (g *Group) StartDo(ctx context.Context, c DeviceCall) *Request {
	if c.onDevice() {
		return g.StartDevice(ctx, c)
	}
	return g.start(ctx, c.host())
}

// onDevice reports whether the call has a buffer that the host does not reach.
func (c *DeviceCall) onDevice() bool { return isDevice(c.Send) || isDevice(c.Recv) }

func isDevice(b *mem.Buffer) bool { return b != nil && !b.Kind().HostAccessible() }

// mixed says what is wrong with a call on memory of both sorts.
func (c *DeviceCall) mixed() string {
	if c.Send == nil || c.Recv == nil || isDevice(c.Send) == isDevice(c.Recv) {
		return ""
	}
	return fmt.Sprintf("send is %v memory, recv is %v memory: both must be of one sort", c.Send.Kind(), c.Recv.Kind())
}

// host is the call on memory that the host reaches.
func (c DeviceCall) host() call {
	bytes := func(b *mem.Buffer) []byte {
		if b == nil {
			return nil
		}
		return b.Bytes()
	}
	return call{code: c.Code, kind: c.Kind, op: c.Op, root: c.Root, counts: c.Counts, counts2: c.RecvCounts, send: bytes(c.Send), recv: bytes(c.Recv)}
}

// SendDevice is Send of device memory.
func (g *Group) SendDevice(ctx context.Context, to int, tag uint64, b *mem.Buffer) error {
	return g.sendDevice(ctx, to, tag, b)()
}

// StartSendDevice is SendDevice as a Request.
func (g *Group) StartSendDevice(ctx context.Context, to int, tag uint64, b *mem.Buffer) *Request {
	wait := g.sendDevice(ctx, to, tag, b)
	return background(func() (int, error) { return 0, wait() })
}

func (g *Group) sendDevice(ctx context.Context, to int, tag uint64, b *mem.Buffer) (wait func() error) {
	err := g.checkPeer(to)
	if err == nil && g.carrier == nil {
		err = fmt.Errorf("collective: Send: %w", ErrNoCarrier)
	}
	if err != nil {
		return func() error { return err }
	}
	return g.carrier.Send(ctx, to, tag, b)
}

// RecvDevice is Recv into device memory.
func (g *Group) RecvDevice(ctx context.Context, from int, tag uint64, b *mem.Buffer) (int, error) {
	return g.recvDevice(ctx, from, tag, b)()
}

// StartRecvDevice is RecvDevice as a Request; its Len is the length.
func (g *Group) StartRecvDevice(ctx context.Context, from int, tag uint64, b *mem.Buffer) *Request {
	return background(g.recvDevice(ctx, from, tag, b))
}

func (g *Group) recvDevice(ctx context.Context, from int, tag uint64, b *mem.Buffer) (wait func() (int, error)) {
	err := g.checkPeer(from)
	if err == nil && g.carrier == nil {
		err = fmt.Errorf("collective: Recv: %w", ErrNoCarrier)
	}
	if err != nil {
		return func() (int, error) { return 0, err }
	}
	return g.carrier.Recv(ctx, from, tag, b)
}

func (c DeviceCall) call() call {
	return call{code: c.Code, kind: c.Kind, op: c.Op, root: c.Root, counts: c.Counts, counts2: c.RecvCounts, device: &c}
}

// check says what is wrong with a device call beside its sizes.
func (g *Group) check(c *DeviceCall) string {
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
