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
	// Send and Recv are the Group's, on device memory. They do not wait for collectives.
	Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) error
	Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (int, error)
	// Close ends it when the group is closed. What is under way on the device may go on.
	Close() error
}

// ErrNoCarrier is a collective on device memory in a group without a Carrier.
var ErrNoCarrier = errors.New("nothing carries device memory among these ranks")

// SetCarrier gives the group what carries its device memory; the group owns it from then on. It must be called before
// the first use of Device. Sub-groups and lanes need one each.
func (g *Group) SetCarrier(c Carrier) { g.carrier = c }

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

// SendDevice is Send of device memory.
func (g *Group) SendDevice(ctx context.Context, to int, tag uint64, b *mem.Buffer) error {
	if err := g.checkPeer(to); err != nil {
		return err
	}
	if g.carrier == nil {
		return fmt.Errorf("collective: Send: %w", ErrNoCarrier)
	}
	return g.carrier.Send(ctx, to, tag, b)
}

// RecvDevice is Recv into device memory.
func (g *Group) RecvDevice(ctx context.Context, from int, tag uint64, b *mem.Buffer) (int, error) {
	if err := g.checkPeer(from); err != nil {
		return 0, err
	}
	if g.carrier == nil {
		return 0, fmt.Errorf("collective: Recv: %w", ErrNoCarrier)
	}
	return g.carrier.Recv(ctx, from, tag, b)
}

func (c DeviceCall) call() call {
	return call{code: c.Code, kind: c.Kind, op: c.Op, root: c.Root, counts: c.Counts, counts2: c.RecvCounts, device: &c}
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
