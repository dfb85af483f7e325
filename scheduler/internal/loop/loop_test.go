package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var errOver = errors.New("over")

// recorder is a loop of numbers that records its calls.
type recorder struct {
	*Runner[int]
	handled, dropped []int // owner: the loop
	flushes, ticks   int   // owner: the loop
	failed           chan any
	tick             func()
}

func record(t *testing.T, interval time.Duration) *recorder {
	r := &recorder{failed: make(chan any, 1), tick: func() {}}
	r.Runner = New(Config[int]{
		Handle: func(m *int) { r.handled = append(r.handled, *m) },
		Drop:   func(m *int) { r.dropped = append(r.dropped, *m) },
		Flush:  func() { r.flushes++ },
		Tick: func() {
			r.ticks++
			r.tick()
		},
		Interval:     interval,
		TickPanicked: func(err *rpc.PanicError) { r.handled = append(r.handled, -1) },
		Panicked:     func(v any) { r.failed <- v },
		Closed:       func() error { return errOver },
	})
	return r
}

func (r *recorder) end(t *testing.T) {
	t.Helper()
	r.Stop()
	select {
	case <-r.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("loop: did not end")
	}
}

// Messages and functions are handled in order, from any number of goroutines.
func TestOrder(t *testing.T) {
	r := record(t, time.Hour)
	const n, each = 8, 500
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() {
			for i := range each {
				if !r.Post(g*each + i) {
					t.Error("Post: got false, want true")
				}
			}
		})
	}
	go r.Run()
	wg.Wait()
	seen := make([]int, n)
	err := r.Do(t.Context(), func() {
		for _, m := range r.handled {
			g, i := m/each, m%each
			if seen[g] != i {
				t.Fatalf("message %d of goroutine %d: got it as number %d", i, g, seen[g])
			}
			seen[g]++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if len(r.handled) != n*each {
		t.Errorf("got %d messages, want %d", len(r.handled), n*each)
	}
	if r.flushes < n*each/turnPosts {
		t.Errorf("got %d flushes for %d messages, want one at least every %d", r.flushes, n*each, turnPosts)
	}
}

// Later runs after the current work, also after functions that were posted before.
func TestLater(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	var order []string
	done := make(chan struct{})
	if err := r.Do(t.Context(), func() {
		r.Later(func() { order = append(order, "later") })
		r.Later(func() { order = append(order, "last"); close(done) })
		order = append(order, "now")
	}); err != nil {
		t.Fatal(err)
	}
	<-done
	r.end(t)
	if want := []string{"now", "later", "last"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// Messages that are left when the loop ends are dropped, and later calls return the error of the owner.
func TestEnd(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	entered, leave := make(chan struct{}), make(chan struct{})
	r.Later(func() { close(entered); <-leave })
	<-entered
	r.Stop()
	r.Post(1)
	r.Post(2)
	close(leave)
	<-r.Done()
	if got := len(r.dropped) + len(r.handled); got != 2 {
		t.Errorf("handled or dropped messages: got %d, want 2", got)
	}
	if r.Post(3) {
		t.Error("Post after the end: got true, want false")
	}
	r.Later(func() { t.Error("a function ran after the end") })
	if err := r.Do(t.Context(), func() { t.Error("a function ran after the end") }); !errors.Is(err, errOver) {
		t.Errorf("Do: got %v, want %v", err, errOver)
	}
	if _, err := Ask(t.Context(), r, func() (int, error) { return 1, nil }); !errors.Is(err, errOver) {
		t.Errorf("Ask: got %v, want %v", err, errOver)
	}
}

// A caller that waits when the loop ends receives an error unless its function has run.
func TestDoAtTheEnd(t *testing.T) {
	for range 200 {
		r := record(t, time.Hour)
		go r.Run()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				ran := false
				err := r.Do(t.Context(), func() { ran = true })
				if (err == nil) != ran {
					t.Errorf("got error %v, function has run: %v", err, ran)
				}
			})
		}
		r.Stop()
		wg.Wait()
		<-r.Done()
	}
}

// A canceled caller does not enter the loop.
func TestDoCancelled(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := r.Do(ctx, func() { t.Error("it ran") }); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	r.end(t)
}

// The panic of a function is returned to its caller, and the loop continues; one in a critical section ends the loop.
func TestPanics(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	err := r.Do(t.Context(), func() { panic("boom") })
	var p *rpc.PanicError
	if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "TestPanics") {
		t.Fatalf("got %v, want the panic with its stack", err)
	}
	if err := r.Do(t.Context(), func() {}); err != nil {
		t.Fatalf("Do after a panic: got error %v, want none", err)
	}
	if err := r.Do(t.Context(), func() {
		if r.SetCritical(true) {
			t.Error("first SetCritical: got true, want false")
		}
		if !r.SetCritical(false) {
			t.Error("second SetCritical: got false, want true")
		}
	}); err != nil {
		t.Fatal(err)
	}
	err = r.Do(t.Context(), func() { r.SetCritical(true); panic("broken") })
	if v := <-r.failed; fmt.Sprint(v.(*rpc.PanicError).Value) != "broken" {
		t.Errorf("got %v, want the panic", v)
	}
	<-r.Done()
	if !errors.Is(err, errOver) {
		t.Errorf("the caller of what broke the loop: got %v, want %v", err, errOver)
	}
}

// A loop with nothing to do handles messages in the goroutine of the caller; a panic there ends the loop as well.
func TestHere(t *testing.T) {
	r := record(t, time.Hour)
	go r.Run()
	if err := r.Do(t.Context(), func() {}); err != nil { // Run has begun, or runs it
		t.Fatal(err)
	}
	for !r.isRunning() {
		runtime.Gosched()
	}
	r.Post(1)
	r.turn.Lock()
	if !slices.Equal(r.handled, []int{1}) || r.flushes == 0 {
		t.Errorf("handled when Post has returned: got %v with %d flushes, want [1]", r.handled, r.flushes)
	}
	r.Post(2) // another turn runs
	if r.Idle() {
		t.Error("Idle with a queued message: got true, want false")
	}
	r.turn.Unlock()
	if err := r.Do(t.Context(), func() {
		if !slices.Equal(r.handled, []int{1, 2}) {
			t.Errorf("handled: got %v, want [1 2]", r.handled)
		}
	}); err != nil {
		t.Fatal(err)
	}
	err := r.Do(t.Context(), func() { r.SetCritical(true); panic("broken") })
	if v := <-r.failed; fmt.Sprint(v.(*rpc.PanicError).Value) != "broken" {
		t.Errorf("got %v, want the panic", v)
	}
	if <-r.Done(); !errors.Is(err, errOver) {
		t.Errorf("got %v, want %v", err, errOver)
	}
	if r.enter() {
		t.Error("turn after the end: got true, want false")
	}
}

// isRunning reports whether Run has begun.
func (r *Runner[M]) isRunning() bool {
	r.turn.Lock()
	defer r.turn.Unlock()
	return r.running
}

// Ticks occur while there is nothing to do, each at a later time; their panics do not end the loop.
func TestTicks(t *testing.T) {
	r := record(t, 100*time.Microsecond)
	ten := make(chan struct{})
	var last time.Time
	r.tick = func() {
		if now := r.Now(); !now.After(last) {
			t.Errorf("tick: got time %v after %v, want a later one", now, last)
		} else {
			last = now
		}
		switch r.ticks {
		case 5:
			panic("tick")
		case 10:
			close(ten)
		}
	}
	go r.Run()
	select {
	case <-ten:
	case <-time.After(30 * time.Second):
		t.Fatal("ticks: got fewer than ten")
	}
	r.end(t)
	if !slices.Equal(r.handled, []int{-1}) {
		t.Errorf("panics of ticks: got %v, want one", r.handled)
	}
}

// Functions of one turn see the same time.
func TestNow(t *testing.T) {
	r := record(t, time.Hour)
	if !r.Now().IsZero() {
		t.Error("Now before the first turn: got a time, want zero")
	}
	var times []time.Time
	for range 3 {
		r.Later(func() { times = append(times, r.Now()) })
	}
	go r.Run()
	before := time.Now()
	if err := r.Do(t.Context(), func() { times = append(times, r.Now()) }); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if !times[0].Equal(times[1]) || !times[1].Equal(times[2]) {
		t.Errorf("times of one turn: got %v, want equal ones", times[:3])
	}
	if times[3].Before(before.Add(-time.Minute)) {
		t.Errorf("time of a later turn: got %v, before %v", times[3], before)
	}
}
