package hostile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// schedulerStreams are the functions of package scheduler that read the streams of workers and clients.
var schedulerStreams = []string{"workerOp", "clientOp", "Primitives.Op"}

// purpose are the requests that end or pause their server, or keep the caller for longer than the attack, when they are
// asked to: what they do then is no finding.
var purpose = map[string]bool{
	"terminate": true, "close": true, "close_gracefully": true, "kill": true, "restart": true, "instantiate": true,
	"benchmark_disk": true, "benchmark_memory": true, "benchmark_network": true,
}

// Eight comms at once send messages of up to twenty fields of 1 MiB, whose integers take six times that when they are
// decoded; Go collects when the heap has doubled.
const opsMemory = 1 << 30

func init() {
	register(
		attack{name: "ops of the scheduler", targets: everywhere, ends: true, memory: opsMemory,
			run: func(ctx context.Context, r *Rig) error {
				return r.attackOps(ctx, r.Scheduler.Address, "scheduler")
			}},
		attack{name: "ops of a worker", targets: everywhere, ends: true, memory: opsMemory,
			run: func(ctx context.Context, r *Rig) error {
				return r.attackOps(ctx, r.Worker.Address, "worker")
			}},
		attack{name: "ops of a nanny", targets: everywhere, ends: true, memory: opsMemory,
			run: func(ctx context.Context, r *Rig) error {
				return r.attackOps(ctx, r.Nanny.Address, "cluster")
			}},
		attack{name: "stream messages of a client", targets: everywhere, ends: true, named: true, memory: opsMemory,
			run: func(ctx context.Context, r *Rig) error {
				return r.attackStreams(ctx, func(i int) (*Peer, error) {
					return r.Client(ctx, fmt.Sprintf("hostile-client-%d", i))
				})
			}},
		attack{name: "stream messages of a worker", targets: everywhere, ends: true, named: true, memory: opsMemory,
			run: func(ctx context.Context, r *Rig) error {
				return r.attackStreams(ctx, func(i int) (*Peer, error) {
					return r.Join(ctx, fmt.Sprintf("hostile-worker-%d", i))
				})
			}},
	)
}

// badValues are what no field expects, or only one of another type. The huge ones are 1 MiB in the long form.
func badValues(full bool) []any {
	size := 64 << 10
	if full {
		size = 1 << 20
	}
	deep := any(1)
	for range 900 {
		deep = []any{deep}
	}
	wide := make([]any, size/4)
	for i := range wide {
		wide[i] = i
	}
	return []any{
		nil, true, -1, int64(math.MinInt64), int64(math.MaxInt64), math.NaN(), math.Inf(1), -1e300, "", "x", "\xff\xfe",
		strings.Repeat("x", size),
		[]byte{0xff, 0, 0x80}, make([]byte, size), []any{}, []any{nil}, []any{"a", "a"}, wide, deep, msgpack.Map{},
		msgpack.MapOf("a", msgpack.MapOf("b", 1)),
		[]any{msgpack.MapOf("a", 1)}, []any{[]any{}, 1, "x"}, "tcp://127.0.0.1:1",
	}
}

// cases are the arguments that one op is called with: none, one bad value in each field with the others missing or
// harmless, and one bad value in all.
func cases(o op, full bool, call func(msgpack.Map) error) error {
	if err := call(msgpack.Map{}); err != nil {
		return err
	}
	values := badValues(full)
	for i, v := range values {
		all := msgpack.Map{}
		for _, f := range o.fields {
			all.Set(f, v)
		}
		if err := call(all); err != nil {
			return err
		}
		for k, f := range o.fields {
			if every := max(3, len(o.fields)/3); !full && (i+k)%every != 0 {
				continue // about three of the fields with each value
			}
			one := msgpack.Map{}
			for _, other := range o.fields {
				one.Set(other, "x")
			}
			one.Set(f, v)
			if err := call(one); err != nil {
				return err
			}
			if !full {
				continue
			}
			if err := call(msgpack.MapOf(f, v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// attackOps calls every request of a server with missing, wrong and huge fields.
func (r *Rig) attackOps(ctx context.Context, address, folder string) error {
	s, err := surfaceOf(folder, schedulerStreams...)
	if err != nil {
		return err
	}
	var calls atomic.Int64
	var errs firstError
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, o := range s.requests {
		if purpose[o.name] {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs.set(r.attackOp(ctx, address, o, &calls))
		})
	}
	wg.Wait()
	r.t.Logf("%s: %d requests of %d ops", folder, calls.Load(), len(s.requests))
	if calls.Load() == 0 {
		return errors.New("no request was made")
	}
	return errs.err
}

// attackOp makes all requests of one op, on one comm while that lasts.
func (r *Rig) attackOp(ctx context.Context, address string, o op, calls *atomic.Int64) error {
	var c comm.Comm
	waits := 0
	defer func() {
		if c != nil {
			c.Abort()
		}
	}()
	return cases(o, r.Full, func(args msgpack.Map) (err error) {
		calls.Add(1)
		if c == nil || c.Err() != nil {
			if c, err = r.Dial(ctx, address, secure.Client); err != nil {
				return fmt.Errorf("%s: connect: %w", o.name, err)
			}
		}
		// A request that waits is left alone: its connection ends. An op that often does gets less time.
		cctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond/time.Duration(1+waits))
		defer cancel()
		err = rpc.Call(cctx, c, o.name, args, nil)
		if cctx.Err() != nil {
			waits = min(waits+1, 20)
		}
		if errors.Is(err, rpc.ErrUnknownOp) || err != nil && strings.Contains(err.Error(), "has no such handler") {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		return nil
	})
}

// firstError keeps the first error of several goroutines.
type firstError struct {
	mu  sync.Mutex
	err error // guarded by mu
}

func (e *firstError) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

// attackStreams sends every stream message with missing, wrong and huge fields, on a new stream after each that was
// ended.
func (r *Rig) attackStreams(ctx context.Context, open func(int) (*Peer, error)) error {
	s, err := surfaceOf("scheduler", schedulerStreams...)
	if err != nil {
		return err
	}
	sent, streams := 0, 0
	var p *Peer
	for _, o := range s.messages {
		err := cases(o, r.Full, func(args msgpack.Map) error {
			for p == nil || p.Comm.Err() != nil {
				streams++
				if p, err = open(streams); err != nil {
					return err
				}
				go func(p *Peer) {
					for {
						if _, err := p.Read(ctx); err != nil {
							p.Comm.Abort()
							return
						}
					}
				}(p)
			}
			args.Set("op", o.name)
			sent++
			_ = p.Send(ctx, args) // the scheduler may have ended the stream
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	r.t.Logf("scheduler: %d messages of %d ops on %d streams", sent, len(s.messages), streams)
	if sent == 0 {
		return errors.New("no message was sent")
	}
	return nil
}
