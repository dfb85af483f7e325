package ucxbench

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The client begins, the server answers; only the iterations are timed.
func TestLatencyOrder(t *testing.T) {
	for client, want := range map[bool]string{true: "srsrsrsr", false: "rsrsrsrs"} {
		var seen strings.Builder
		op := func(letter byte) func(context.Context) error {
			return func(context.Context) error { seen.WriteByte(letter); return nil }
		}
		s, err := latency(t.Context(), client, Spec{Warmup: 1, Iterations: 3}, pingpong{send: op('s'), recv: op('r')})
		if err != nil || seen.String() != want || s.Operations != 3 || s.Seconds <= 0 {
			t.Errorf("client %v: %q, %+v, %v", client, seen.String(), s, err)
		}
	}
}

func TestMeasurementsStopAtAnError(t *testing.T) {
	broken := errors.New("broken")
	for _, after := range []int{0, 1, 3} { // in the warm-up, at its end, in the timed part
		calls := 0
		fail := func(context.Context) error {
			if calls++; calls > after {
				return broken
			}
			return nil
		}
		if _, err := latency(t.Context(), true, Spec{Warmup: 1, Iterations: 3},
			pingpong{send: fail, recv: fail}); !errors.Is(err, broken) || calls != after+1 {
			t.Errorf("latency: %v after %d calls", err, calls)
		}
	}
	none := func(context.Context) error { return nil }
	transfer := func(context.Context, int) error { return nil }
	failing := func(context.Context, int) error { return broken }
	if _, err := bandwidth(t.Context(), Spec{Window: 1, Iterations: 1}, oneWay{failing, none}); !errors.Is(err,
		broken) {
		t.Errorf("bandwidth, transfer: %v", err)
	}
	if _, err := bandwidth(t.Context(), Spec{Window: 1, Iterations: 1}, oneWay{transfer, func(context.Context) error {
		return broken
	}}); !errors.Is(err, broken) {
		t.Errorf("bandwidth, done: %v", err)
	}
	one := func(_ context.Context, g, _ int) error {
		if g == 2 {
			return broken
		}
		return nil
	}
	if _, err := rate(t.Context(), Spec{Iterations: 8, Goroutines: 4}, one, none); !errors.Is(err, broken) {
		t.Errorf("rate: %v", err)
	}
}

// The first phase uses every place of the window; the end of the transfer is
// part of both phases.
func TestBandwidthPhases(t *testing.T) {
	var phases []int
	done := 0
	s, err := bandwidth(t.Context(), Spec{Window: 32, Warmup: 5, Iterations: 100}, oneWay{
		transfer: func(_ context.Context, n int) error { phases = append(phases, n); return nil },
		done:     func(context.Context) error { done++; return nil },
	})
	if err != nil || len(phases) != 2 || phases[0] != 32 || phases[1] != 100 || done != 2 || s.Operations != 100 {
		t.Errorf("phases %v, done %d, %+v, %v", phases, done, s, err)
	}
}

// Every goroutine does the same share, in both phases: the other side counts
// on it.
func TestRateShares(t *testing.T) {
	const goroutines = 8
	var done [goroutines]atomic.Int64
	phases := 0
	s, err := rate(t.Context(), Spec{Iterations: 1003, Goroutines: goroutines},
		func(_ context.Context, g, n int) error {
			if g == 0 {
				time.Sleep(time.Millisecond) // a slow one must not lose its share to others
			}
			done[g].Add(int64(n))
			return nil
		},
		func(context.Context) error { phases++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for g := range done {
		if got := done[g].Load(); got != 125+12 {
			t.Errorf("goroutine %d did %d operations", g, got)
		}
	}
	if s.Operations != 1000 || phases != 2 {
		t.Errorf("%+v, %d phases", s, phases)
	}
}

func TestMeter(t *testing.T) {
	m := startMeter()
	sink = make([]byte, 1<<10)
	time.Sleep(5 * time.Millisecond)
	s := m.stop(7)
	if s.Seconds < 0.005 || s.Operations != 7 || s.Allocs == 0 || s.CPUSeconds < 0 {
		t.Errorf("%+v", s)
	}
}

var sink []byte

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := sleep(ctx, time.Hour); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

func TestSideRefusesTheWrongOrder(t *testing.T) {
	s := NewSide()
	if _, err := s.Connect(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "before open") {
		t.Errorf("connect: %v", err)
	}
	if _, err := s.Run(t.Context(), Spec{}); err == nil || !strings.Contains(err.Error(), "before connect") {
		t.Errorf("run: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}
