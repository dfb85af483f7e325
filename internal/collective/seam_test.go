package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// recorder is a Carrier that records its calls.
type recorder struct {
	calls  []Call
	refuse Kind
	fails  error
	closed int
}

func (r *recorder) Name() string { return "recorder" }
func (r *recorder) Run(_ context.Context, c *Call) error {
	r.calls = append(r.calls, *c)
	return r.fails
}
func (r *recorder) Check(c *Call) string {
	if c.Kind == r.refuse {
		return "it has no " + c.Kind.String()
	}
	return ""
}
func (r *recorder) Send(context.Context, int, uint64, *mem.Buffer) func() error {
	return func() error { return nil }
}
func (r *recorder) Recv(_ context.Context, _ int, _ uint64, b *mem.Buffer) func() (int, error) {
	return func() (int, error) { return b.Len(), nil }
}
func (r *recorder) Close() error { r.closed++; return nil }

// onDevice returns n bytes of pretended device memory, at an address that is not accessed.
func onDevice(addr uintptr, n int) *mem.Buffer {
	return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: mem.Device, Device: 0}).Buffer()
}

// TestDeviceCalls: the ranks agree on a call on device memory as they do on one of the host's, then the carriers are
// asked for it, in the order of the calls.
func TestDeviceCalls(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			rs := make([]*recorder, len(gs))
			for i, g := range gs {
				rs[i] = &recorder{refuse: Int16}
				g.SetCarrier(rs[i])
			}
			dev := func(n int) Memory { return Memory{Buffer: onDevice(1<<20, n)} }
			host := func(n int) Memory { return Memory{Buffer: mem.FromBytes(make([]byte, n))} }
			placed := func(addr uintptr, n int) Memory { return Memory{Buffer: onDevice(addr, n)} }
			for _, tc := range []struct {
				name string
				call func(rank int) Call
				want string // the error, "" for none
			}{
				{"all-reduce", func(int) Call {
					return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: dev(1 << 20), Recv: placed(1<<30, 1<<20)}
				}, ""},
				{"nothing", func(int) Call {
					return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: dev(0), Recv: dev(0)}
				}, ""},
				{"sizes", func(rank int) Call {
					return Call{Code: Broadcast, Kind: Float32, Send: dev(4 + 4*(rank/2)), Recv: dev(4 + 4*(rank/2))}
				}, "rank 0 has 1 elements, rank 2 has 2"},
				{"where", func(rank int) Call {
					if rank == 1 {
						return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: host(1 << 20), Recv: host(1 << 20)}
					}
					return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: dev(1 << 20), Recv: dev(1 << 20)}
				}, "rank 0 has buffers in device memory, rank 1 has host memory"},
				{"small where", func(rank int) Call {
					if rank == 1 {
						return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: dev(4), Recv: dev(4)}
					}
					return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: host(4), Recv: host(4)}
				}, "rank 0 has buffers in host memory, rank 1 has device memory"},
				{"both sorts", func(rank int) Call {
					return Call{Code: AllReduce, Kind: Float32, Op: Sum, Send: dev(4), Recv: host(4)}
				}, "invalid call of AllReduce on rank 0: send is device memory, recv is host memory"},
				{"overlap", func(int) Call {
					return Call{Code: AllToAll, Kind: Uint8, Send: placed(1<<20, 6), Recv: placed(1<<20+3, 6)}
				}, "send and recv overlap"},
				{"the carrier's word", func(int) Call {
					return Call{Code: AllReduce, Kind: Int16, Op: Sum, Send: dev(4), Recv: dev(4)}
				}, "it has no int16"},
				{"gather-v", func(rank int) Call {
					c := Call{Code: GatherV, Kind: Uint8, Root: 1, Send: dev(rank)}
					if rank == 1 {
						c.Recv, c.Counts = placed(1<<30, 3), []int{0, 1, 2}
					}
					return c
				}, ""},
			} {
				before := len(rs[0].calls)
				errs := results(len(gs), func(r int) error { return gs[r].Do(ctx, tc.call(r)) })
				for r, err := range errs {
					var mismatch *MismatchError
					switch {
					case tc.want == "" && (err != nil || len(rs[r].calls) != before+1 ||
						rs[r].calls[before].Code != tc.call(r).Code):
						t.Errorf("%s: rank %d: %v after %d calls", tc.name, r, err, len(rs[r].calls))
					case tc.want != "" && (!errors.As(err, &mismatch) || !strings.Contains(err.Error(), tc.want) ||
						err.Error() != errs[0].Error() || len(rs[r].calls) != before):
						t.Errorf("%s: rank %d: %v; want %q and no call", tc.name, r, err, tc.want)
					}
				}
			}
			each(t, len(gs), func(r int) error { return gs[r].Do(ctx, barrier()) }) // it lives on
		})
	}
}

// TestCarrierFails: what a carrier cannot go on from is the end of the group, with the rank's name and the reason.
func TestCarrierFails(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	for r, g := range gs {
		k := &recorder{}
		if r == 1 {
			k.fails = errors.New("the device is on fire")
		}
		g.SetCarrier(k)
	}
	errs := results(2, func(r int) error {
		b := Memory{Buffer: onDevice(1<<20, 8)}
		if err := gs[r].Do(ctx, Call{Code: Broadcast, Kind: Uint8, Send: b, Recv: b}); err != nil {
			return err
		}
		return gs[r].Do(ctx, barrier())
	})
	for r, err := range errs {
		var rank *RankError
		if !errors.As(err, &rank) || rank.Rank != 1 || !strings.Contains(err.Error(), "on fire") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestNoCarrier checks that a group without a carrier returns an error, and that it closes a carrier once.
func TestNoCarrier(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 1)
	b := Memory{Buffer: onDevice(1<<20, 8)}
	calls := []Call{{Code: Broadcast, Kind: Uint8, Send: b, Recv: b},
		{Code: AllReduce, Kind: Uint8, Op: Sum, OnDevice: true},
		sending(0, 1, b), receiving(0, 1, b), {Code: SendRecv, Kind: Uint8, Send: b, Recv: b}}
	for _, c := range calls {
		for i, err := range []error{gs[0].Do(ctx, c), gs[0].Start(ctx, c).Wait(ctx)} {
			if !errors.Is(err, ErrNoCarrier) {
				t.Errorf("%v, form %d: %v, want ErrNoCarrier", c.Code, i, err)
			}
		}
	}
	k := &recorder{}
	gs[0].SetCarrier(k)
	if n, err := received(ctx, gs[0], 0, 1, b); n != 8 || err != nil {
		t.Errorf("received %d bytes, %v; want 8", n, err)
	}
	for _, c := range calls {
		q := gs[0].Start(ctx, c)
		if err := q.Wait(ctx); err != nil {
			t.Errorf("%v: %v", c.Code, err)
		}
		if want := map[Code]int{Recv: 8, SendRecv: 8}[c.Code]; q.Len() != want {
			t.Errorf("%v: length %d, want %d", c.Code, q.Len(), want)
		}
	}
	if err := gs[0].Do(ctx, sending(1, 1, b)); err == nil || !strings.Contains(err.Error(),
		"no rank 1 in a group of 1 ranks") {
		t.Error(err)
	}
	if err := errors.Join(gs[0].Close(), gs[0].Close()); err != nil || k.closed != 1 {
		t.Error(err, k.closed)
	}
}

// TestScale: a scale is handed on as the bytes of an element.
func TestScale(t *testing.T) {
	for _, tc := range []struct {
		op   Op
		want string
	}{{elem.PreMulSum(int8(-3)), "int8 fd"}, {elem.PreMulSum(float32(2)),
		"float32 00000040"}, {elem.PreMulSumOf(Float64, 2), "float64 0000000000000040"}} {
		k, element, ok := tc.op.Scale()
		if got := fmt.Sprintf("%v %x", k, element); !ok || got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	if _, _, ok := Sum.Scale(); ok {
		t.Error("Sum has a scale")
	}
}
