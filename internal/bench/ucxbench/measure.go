package ucxbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/ucx"
)

// pingpong is one side of a latency measurement: the two blocking operations of one iteration.
type pingpong struct {
	send, recv func(context.Context) error
}

// latency measures round trips. The client sends first.
func latency(ctx context.Context, client bool, spec Spec, op pingpong) (Sample, error) {
	first, second := op.recv, op.send
	if client {
		first, second = op.send, op.recv
	}
	bounce := func(n int) error {
		for range n {
			if err := first(ctx); err != nil {
				return err
			}
			if err := second(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := bounce(spec.Warmup); err != nil {
		return Sample{}, err
	}
	m := startMeter()
	if err := bounce(spec.Iterations); err != nil {
		return Sample{}, err
	}
	return m.stop(int64(spec.Iterations)), nil
}

// windowed keeps up to window operations in flight and waits for all of them. place is the index in the window.
func windowed(ctx context.Context, n, window int, start func(place int) *ucx.Request) error {
	ring := make([]*ucx.Request, window)
	for i := range n {
		slot := &ring[i%window]
		if *slot != nil {
			if err := (*slot).Wait(ctx); err != nil {
				return errors.Join(err, drain(ctx, ring))
			}
		}
		*slot = start(i % window)
	}
	return drain(ctx, ring)
}

// maxBatches is the number of batches of a window of outstanding operations: while one of them is collected and started
// again, the operations of the others keep the peer busy.
const maxBatches = 4

// batched is windowed for operations that can be started together: batches of parts of the window alternate. add adds
// the operation of a place in the window to a batch.
func batched(ctx context.Context, w *ucx.Worker, n, window int, add func(b *ucx.Batch, place int)) error {
	batches := make([]*ucx.Batch, min(maxBatches, window))
	part := func(i int) int { return i * window / len(batches) } // its first place
	for i := range batches {
		batches[i] = w.NewBatch(part(i+1) - part(i))
	}
	var failed error
	for turn := 0; n > 0 && failed == nil; turn = (turn + 1) % len(batches) {
		b := batches[turn]
		if failed = b.Wait(ctx); failed != nil {
			break
		}
		b.Reset()
		for place := part(turn); place < part(turn+1) && n > 0; place++ {
			add(b, place)
			n--
		}
		b.Start()
	}
	for _, b := range batches {
		failed = errors.Join(failed, b.Wait(ctx))
	}
	return failed
}

// drain waits for operations in flight, so that their memory can be released.
func drain(ctx context.Context, ring []*ucx.Request) error {
	var failed error
	for _, r := range ring {
		if r == nil {
			continue
		}
		if err := r.Wait(ctx); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// oneWay is one side of one-way traffic. transfer sends or receives n messages. done is part of the measured time,
// because data counts only when it has arrived.
type oneWay struct {
	transfer func(ctx context.Context, n int) error
	// done waits until the receiver has all data.
	done func(context.Context) error
}

func bandwidth(ctx context.Context, spec Spec, op oneWay) (Sample, error) {
	phase := func(n int) error {
		if err := op.transfer(ctx, n); err != nil {
			return err
		}
		return op.done(ctx)
	}
	// Use at least one window, so that every place is used and can be verified.
	if err := phase(max(spec.Warmup, spec.Window)); err != nil {
		return Sample{}, err
	}
	m := startMeter()
	if err := phase(spec.Iterations); err != nil {
		return Sample{}, err
	}
	return m.stop(int64(spec.Iterations)), nil
}

// rate distributes operations over goroutines that share one worker.
func rate(ctx context.Context, spec Spec, one func(ctx context.Context, goroutine, n int) error,
	done func(context.Context) error) (Sample, error) {
	each := max(spec.Iterations/spec.Goroutines, 1)
	results := make(chan error, spec.Goroutines)
	begin := make([]chan int, spec.Goroutines)
	for g := range begin {
		begin[g] = make(chan int)
		go func() {
			for n := range begin[g] {
				results <- one(ctx, g, n)
			}
		}()
		defer close(begin[g])
	}
	phase := func(n int) error {
		for _, c := range begin {
			c <- n
		}
		var failed error
		for range spec.Goroutines {
			if err := <-results; err != nil && failed == nil {
				failed = err
			}
		}
		if failed != nil {
			return failed
		}
		return done(ctx)
	}
	if err := phase(max(each/10, 1)); err != nil {
		return Sample{}, err
	}
	m := startMeter()
	if err := phase(each); err != nil {
		return Sample{}, err
	}
	return m.stop(int64(each * spec.Goroutines)), nil
}

// meter measures time, allocations and processor time.
type meter struct {
	cpu    float64
	allocs uint64
	begin  time.Time
}

func startMeter() meter {
	m := meter{cpu: cpuSeconds(), allocs: mallocs()}
	m.begin = time.Now() // last, because reading the statistics stops the world
	return m
}

func (m meter) stop(operations int64) Sample {
	seconds := time.Since(m.begin).Seconds()
	return Sample{Seconds: seconds, Operations: operations, Allocs: mallocs() - m.allocs,
		CPUSeconds: cpuSeconds() - m.cpu}
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}

func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("getrusage of this process: %v", err)) // cannot fail with these arguments
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
