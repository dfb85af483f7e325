package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fleet is a scaler with the load of the test.
type fleet struct {
	sync.Mutex
	names, arrived []string
	load           int
	failing        error
	log            []string
}

func (f *fleet) plan() []string       { f.Lock(); defer f.Unlock(); return slices.Clone(f.names) }
func (f *fleet) registered() []string { f.Lock(); defer f.Unlock(); return slices.Clone(f.arrived) }

func (f *fleet) target(_ context.Context, d time.Duration) (int, error) {
	f.Lock()
	defer f.Unlock()
	return f.load, f.failing
}

func (f *fleet) unneeded(_ context.Context, n int) ([]string, error) {
	f.Lock()
	defer f.Unlock()
	return slices.Clone(f.arrived[min(n, len(f.arrived)):]), nil
}

func (f *fleet) grow(_ context.Context, n int) error {
	f.Lock()
	defer f.Unlock()
	f.log = append(f.log, fmt.Sprint("+", n))
	for len(f.names) < n {
		f.names = append(f.names, fmt.Sprint(len(f.names)))
	}
	return nil
}

func (f *fleet) shrink(_ context.Context, names []string) error {
	f.Lock()
	defer f.Unlock()
	f.log = append(f.log, "-"+strings.Join(names, ","))
	f.names = slices.DeleteFunc(f.names, func(n string) bool { return slices.Contains(names, n) })
	f.arrived = slices.DeleteFunc(f.arrived, func(n string) bool { return slices.Contains(names, n) })
	return nil
}

// Consecutive checks decide as Dask does.
func TestAdaptiveSteps(t *testing.T) {
	f := &fleet{}
	cfg, err := AdaptiveConfig{Minimum: 1, Maximum: 4}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.WaitCount != 3 || cfg.Interval != time.Second || cfg.TargetDuration != 5*time.Second {
		t.Errorf("defaults: got %+v, want 3, 1 s and 5 s", cfg)
	}
	a := &Adaptive{cfg: cfg, on: f, counts: map[string]int{}}
	step := func(load int, want string) {
		t.Helper()
		f.load, f.log = load, nil
		if err := a.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.log, " "); got != want {
			t.Errorf("load %d: %q, want %q", load, got, want)
		}
	}
	step(0, "+1")  // the minimum
	step(99, "+4") // the maximum
	step(4, "")
	f.arrived = []string{"0", "1", "2"}
	step(3, "")   // 3 has not registered: once
	step(3, "")   // twice
	step(4, "")   // needed again: the count is reset
	step(3, "")   // once
	step(3, "")   // twice
	step(3, "-3") // three times
	step(2, "")
	step(1, "")
	step(1, "-2") // 2 was unneeded in three checks, 1 in two
	step(1, "-1")
	step(0, "")
	f.failing = errors.New("busy")
	if err := a.step(t.Context()); !errors.Is(err, f.failing) {
		t.Errorf("step of a failing scaler: got %v, want %v", err, f.failing)
	}
}

func TestAdaptiveBadConfig(t *testing.T) {
	for _, bad := range []AdaptiveConfig{{Minimum: 3, Maximum: 2}, {Minimum: -1}, {Interval: -1}, {WaitCount: -1},
		{TargetDuration: -1}} {
		if got, err := bad.withDefaults(); err == nil {
			t.Errorf("%+v: got %+v, want an error", bad, got)
		}
	}
}

// The goroutine checks by itself, continues after an error, and stops.
func TestAdaptiveRuns(t *testing.T) {
	f := &fleet{load: 2, failing: errors.New("not yet")}
	cfg, err := AdaptiveConfig{Interval: time.Millisecond, Logger: quiet}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	a := startAdaptive(f, cfg)
	time.Sleep(5 * time.Millisecond)
	f.Lock()
	f.failing = nil
	f.Unlock()
	until(t, "two workers", func() bool { return len(f.plan()) == 2 })
	for range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
	}
}
