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

// AdaptiveConfig says how a cluster follows its load. What is not set comes from Dask's
// configuration, distributed.adaptive.*.
type AdaptiveConfig struct {
	// Minimum and Maximum bound the number of workers (default 0 and no bound;
	// distributed.adaptive.minimum and maximum).
	Minimum, Maximum int
	// Interval is the time between two looks at the load (default 1 s;
	// distributed.adaptive.interval).
	Interval time.Duration
	// WaitCount is how many looks in a row must find a worker superfluous before it is
	// closed (default 3; distributed.adaptive.wait-count).
	WaitCount int
	// TargetDuration is how long the waiting work may take: with more of it, workers are
	// added (default 5 s; distributed.adaptive.target-duration).
	TargetDuration time.Duration
	// Logger gets what is decided (default slog.Default).
	Logger *slog.Logger
}

func (a AdaptiveConfig) complete() (AdaptiveConfig, error) {
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
		return a, fmt.Errorf("cluster: adaptive between %d and %d workers", a.Minimum, a.Maximum)
	case a.Interval <= 0 || a.TargetDuration <= 0 || a.WaitCount < 1:
		return a, fmt.Errorf("cluster: adaptive interval %v, target duration %v, wait count %d: must be positive",
			a.Interval, a.TargetDuration, a.WaitCount)
	}
	if a.Logger == nil {
		a.Logger = slog.Default()
	}
	return a, nil
}

// scaler is what adapts: a Cluster.
type scaler interface {
	// plan are the names of the workers that should exist, observed those that the
	// scheduler knows.
	plan() []string
	observed() []string
	// target asks the scheduler how many workers its load needs.
	target(ctx context.Context, duration time.Duration) (int, error)
	// superfluous asks the scheduler which workers to close to have n left.
	superfluous(ctx context.Context, n int) ([]string, error)
	// grow starts workers until there are n, shrink retires some.
	grow(ctx context.Context, n int) error
	shrink(ctx context.Context, names []string) error
}

// Adaptive follows the load of a cluster. Its goroutine owns counts.
type Adaptive struct {
	cfg    AdaptiveConfig
	on     scaler
	counts map[string]int // in how many looks in a row a worker was superfluous

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

// Close stops following the load. Workers stay as they are. It is idempotent.
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
			a.cfg.Logger.Warn("adaptive: no change this time", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// step looks once and acts.
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
		a.cfg.Logger.Info("adaptive: more workers", "from", len(plan), "to", target)
		return a.on.grow(ctx, target)
	}
	down, err := a.superfluous(ctx, plan, target)
	if err != nil || len(down) == 0 {
		return err
	}
	a.cfg.Logger.Info("adaptive: fewer workers", "from", len(plan), "to", target, "close", down)
	return a.on.shrink(ctx, down)
}

// superfluous returns the workers to close now: those that have not arrived yet first, then
// those that the scheduler can spare, and of both only those that were found so often enough.
func (a *Adaptive) superfluous(ctx context.Context, plan []string, target int) ([]string, error) {
	observed := a.on.observed()
	var spare []string
	for _, name := range plan {
		if len(spare) < len(plan)-target && !slices.Contains(observed, name) {
			spare = append(spare, name)
		}
	}
	if target < len(plan)-len(spare) {
		more, err := a.on.superfluous(ctx, target)
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
	a.counts = counts // who was not spare this time begins anew
	return firm, nil
}
