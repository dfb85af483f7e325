package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"go.millstream.dev/config"
)

// AdaptiveConfig configures how the number of workers follows the load of a cluster. Defaults are taken from Dask's
// configuration, distributed.adaptive.*.
type AdaptiveConfig struct {
	// Minimum and Maximum bound the number of workers (default 0 and unlimited; distributed.adaptive.minimum and
	// maximum).
	Minimum, Maximum int
	// Interval is the time between two checks of the load (default 1 s; distributed.adaptive.interval).
	Interval time.Duration
	// WaitCount is the number of consecutive checks after which an unneeded worker is closed (default 3;
	// distributed.adaptive.wait-count).
	WaitCount int
	// TargetDuration is how long the waiting tasks may take before workers are added (default 5 s;
	// distributed.adaptive.target-duration).
	TargetDuration time.Duration
	// Logger receives the decisions (default slog.Default).
	Logger *slog.Logger
}

func (a AdaptiveConfig) withDefaults() (AdaptiveConfig, error) {
	c, err := config.Default()
	if err != nil {
		return a, err
	}
	var errs []error
	number := func(key string, to *int, otherwise int64) {
		if *to == 0 {
			if f, ok := c.Get(key, nil).(float64); ok && math.IsInf(f, 1) {
				return // Dask's .inf
			}
			n, err := c.Int(key, otherwise)
			*to = int(n)
			errs = append(errs, err)
		}
	}
	duration := func(key string, to *time.Duration, otherwise time.Duration) {
		if *to == 0 {
			d, err := c.Duration(key, otherwise)
			*to = d
			errs = append(errs, err)
		}
	}
	number("distributed.adaptive.minimum", &a.Minimum, 0)
	number("distributed.adaptive.maximum", &a.Maximum, 0)
	number("distributed.adaptive.wait-count", &a.WaitCount, 3)
	duration("distributed.adaptive.interval", &a.Interval, time.Second)
	duration("distributed.adaptive.target-duration", &a.TargetDuration, 5*time.Second)
	if err := errors.Join(errs...); err != nil {
		return a, err
	}
	if a.Maximum == 0 {
		a.Maximum = math.MaxInt
	}
	switch {
	case a.Minimum < 0 || a.Maximum < a.Minimum:
		return a, fmt.Errorf("cluster: adaptive: invalid range of %d to %d workers", a.Minimum, a.Maximum)
	case a.Interval <= 0 || a.TargetDuration <= 0 || a.WaitCount < 1:
		return a, fmt.Errorf("cluster: adaptive interval %v, target duration %v, wait count %d: must be positive",
			a.Interval, a.TargetDuration, a.WaitCount)
	}
	if a.Logger == nil {
		a.Logger = slog.Default()
	}
	return a, nil
}

// scaler is the part of Cluster that Adaptive uses.
type scaler interface {
	// plan returns the names of the workers that should exist, registered those that the scheduler has.
	plan() []string
	registered() []string
	// target requests from the scheduler the number of workers that its load needs.
	target(ctx context.Context, duration time.Duration) (int, error)
	// unneeded requests from the scheduler the workers to close so that n remain.
	unneeded(ctx context.Context, n int) ([]string, error)
	// grow starts workers until there are n, shrink retires the named ones.
	grow(ctx context.Context, n int) error
	shrink(ctx context.Context, names []string) error
}

// Adaptive adjusts the number of workers to the load of a cluster. Its goroutine owns counts.
type Adaptive struct {
	cfg    AdaptiveConfig
	on     scaler
	counts map[string]int // number of consecutive checks in which a worker was unneeded

	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

func startAdaptive(on scaler, cfg AdaptiveConfig) *Adaptive {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Adaptive{cfg: cfg, on: on, counts: map[string]int{}, cancel: cancel, done: make(chan struct{})}
	go a.run(ctx)
	return a
}

// Close stops the adjustments. Workers are not changed. Close may be called more than once.
func (a *Adaptive) Close() error {
	a.once.Do(a.cancel)
	<-a.done
	return nil
}

func (a *Adaptive) run(ctx context.Context) {
	defer close(a.done)
	t := time.NewTicker(a.cfg.Interval)
	defer t.Stop()
	for {
		if err := a.step(ctx); err != nil && ctx.Err() == nil {
			a.cfg.Logger.Warn("adaptive scaling failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// step checks the load once and adjusts the number of workers.
func (a *Adaptive) step(ctx context.Context) error {
	target, err := a.on.target(ctx, a.cfg.TargetDuration)
	if err != nil {
		return err
	}
	target = max(min(target, a.cfg.Maximum), a.cfg.Minimum)
	plan := a.on.plan()
	switch {
	case target == len(plan):
		clear(a.counts)
		return nil
	case target > len(plan):
		clear(a.counts)
		a.cfg.Logger.Info("adaptive scaling up", "from", len(plan), "to", target)
		return a.on.grow(ctx, target)
	}
	down, err := a.toClose(ctx, plan, target)
	if err != nil || len(down) == 0 {
		return err
	}
	a.cfg.Logger.Info("adaptive scaling down", "from", len(plan), "to", target, "close", down)
	return a.on.shrink(ctx, down)
}

// toClose returns the workers to close now: first those that have not registered yet, then those that the scheduler
// does not need, and of both only those that were unneeded in WaitCount consecutive checks.
func (a *Adaptive) toClose(ctx context.Context, plan []string, target int) ([]string, error) {
	registered := a.on.registered()
	var spare []string
	for _, name := range plan {
		if len(spare) < len(plan)-target && !slices.Contains(registered, name) {
			spare = append(spare, name)
		}
	}
	if target < len(plan)-len(spare) {
		more, err := a.on.unneeded(ctx, target)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			if slices.Contains(plan, name) && !slices.Contains(spare, name) {
				spare = append(spare, name)
			}
		}
	}
	var firm []string
	counts := map[string]int{}
	for _, name := range spare {
		if n := a.counts[name] + 1; n >= a.cfg.WaitCount {
			firm = append(firm, name)
		} else {
			counts[name] = n
		}
	}
	a.counts = counts // workers that are needed now start again at zero
	return firm, nil
}
