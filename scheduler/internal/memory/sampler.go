package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

const (
	// minInterval is the shortest time between two samples, maxInterval the longest.
	minInterval, maxInterval = time.Millisecond, 24 * time.Hour
	// maxSamplers bounds the samplers of all clients, and maxSamples the samples of one: beyond it, every second sample
	// is dropped and the interval doubles.
	maxSamplers, maxSamples = 1000, 100_000
)

// sampler records the memory of the cluster for a client. The loop owns it.
type sampler struct {
	client   string
	measure  func(usage) int64
	interval time.Duration
	timer    *time.Timer
	samples  []sample
}

type sample struct {
	at    time.Time
	bytes int64
}

// startRPC starts a sampler and returns its key.
func (s *Memory) startRPC(ctx context.Context, _ *rpc.Request, in struct {
	Client   string  `rpc:"client"`
	Measure  string  `rpc:"measure"`
	Interval float64 `rpc:"interval"`
}) (string, error) {
	measure := measures[in.Measure]
	if measure == nil {
		return "", &rpc.Exception{Type: "AttributeError", Message: fmt.Sprintf(
			"memory_sampler_start: unknown measure %q; want one of %s", in.Measure, strings.Join(measureNames(), ", "))}
	}
	if !(in.Interval > 0) || math.IsInf(in.Interval, 1) {
		return "", &rpc.Exception{Type: "ValueError",
			Message: fmt.Sprintf("memory_sampler_start: interval is %v, want seconds above 0", in.Interval)}
	}
	seconds := min(in.Interval, maxInterval.Seconds())
	interval := max(time.Duration(seconds*float64(time.Second)), minInterval)
	return loop.Ask(ctx, s.Loop, func() (string, error) {
		if s.Clients.ByName[in.Client] == nil {
			return "", &rpc.Exception{Type: "ValueError",
				Message: fmt.Sprintf("memory_sampler_start: unknown client %q", in.Client)}
		}
		if len(s.samplers) >= maxSamplers {
			return "", &rpc.Exception{Type: "RuntimeError",
				Message: fmt.Sprintf("memory_sampler_start: %d samplers are running; stop some", maxSamplers)}
		}
		key := rand.Text()
		s.samplers[key] = &sampler{client: strings.Clone(in.Client), measure: measure, interval: interval}
		s.sample(key)
		return key, nil
	})
}

// sample takes a sample and starts the timer of the next one. It runs in the loop.
func (s *Memory) sample(key string) {
	p := s.samplers[key]
	if p == nil {
		return
	}
	if s.Clients.ByName[p.client] == nil {
		s.stop(key)
		return
	}
	p.add(sample{time.Now(), p.measure(s.usage())})
	p.timer = time.AfterFunc(p.interval, func() { s.Loop.Later(func() { s.sample(key) }) })
}

func (p *sampler) add(x sample) {
	if len(p.samples) >= maxSamples {
		half := p.samples[:0]
		for i := 0; i < len(p.samples); i += 2 {
			half = append(half, p.samples[i])
		}
		p.samples, p.interval = half, min(2*p.interval, maxInterval)
	}
	p.samples = append(p.samples, x)
}

// stop ends a sampler and returns it; nil if it is unknown. It runs in the loop.
func (s *Memory) stop(key string) *sampler {
	p := s.samplers[key]
	if p != nil {
		delete(s.samplers, key)
		if p.timer != nil {
			p.timer.Stop()
		}
	}
	return p
}

// stopRPC ends a sampler and returns its samples: pairs of the time, in seconds since 1970, and bytes.
func (s *Memory) stopRPC(ctx context.Context, _ *rpc.Request, in struct {
	Key string `rpc:"key"`
}) ([]any, error) {
	p, err := loop.Ask(ctx, s.Loop, func() (*sampler, error) {
		if p := s.stop(in.Key); p != nil {
			return p, nil
		}
		return nil, &rpc.Exception{Type: "KeyError",
			Message: "memory_sampler_stop: unknown sampler " + in.Key + "; its client may have disconnected"}
	})
	if err != nil {
		return nil, err
	}
	out := make([]any, len(p.samples))
	for i, x := range p.samples {
		out[i] = []any{val.Seconds(x.at), x.bytes}
	}
	return out, nil
}
