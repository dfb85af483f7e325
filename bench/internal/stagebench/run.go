package stagebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// UCX runs one measurement of UCX. *benchpeer.Perftest implements it.
type UCX interface {
	Run(ctx context.Context, r benchpeer.PerftestRun) (benchpeer.PerftestResult, error)
}

// Programs start the processes. UCX is nil without a peer.
type Programs struct {
	Go  benchpeer.Starter
	UCX UCX
}

// pair is a connected pair of server and client.
type pair struct {
	setting        Setting
	server, client *benchpeer.Lines
}

func startPair(ctx context.Context, start benchpeer.Starter, s Setting, o Options) (*pair, error) {
	p := &pair{setting: s}
	var err error
	if p.server, err = benchpeer.StartLines(ctx, start, s.Env); err != nil {
		return nil, err
	}
	if p.client, err = benchpeer.StartLines(ctx, start, s.Env); err != nil {
		p.server.Stop()
		return nil, err
	}
	var a answer
	err = p.server.Ask(ctx, command{Do: "listen", Address: s.Address, Device: o.Device}, &a)
	if err == nil {
		err = p.client.Ask(ctx, command{Do: "connect", Address: a.Address, Device: o.Device, Lines: o.Lines}, &answer{})
	}
	for _, n := range o.Sizes {
		if err == nil {
			err = p.client.Ask(ctx, command{Do: "check", Size: n}, &answer{})
		}
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *pair) stop() {
	p.client.Stop()
	p.server.Stop()
}

// round measures for about a time and returns GB/s.
func (p *pair) round(ctx context.Context, c Case, size int64, length time.Duration) (float64, error) {
	var each float64
	for n := 2 * c.Window; ; { // the first run warms up and measures the duration of one message
		var a answer
		if err := p.client.Ask(ctx, command{Do: "run", Size: size, N: n, Window: c.Window}, &a); err != nil {
			return 0, err
		}
		if a.Seconds <= 0 {
			return 0, errors.New("empty round")
		}
		if each > 0 {
			return benchfmt.GBps(float64(size)*float64(n), a.Seconds), nil
		}
		each = a.Seconds / float64(n)
		n = max(2*c.Window, int(length.Seconds()/each))
	}
}

// Run measures according to the options, in alternating rounds, and passes each figure to the sink.
func Run(ctx context.Context, programs Programs, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			p.stop()
		}
	}()
	for _, s := range Settings() {
		if !slices.Contains(o.Settings, s.Name) {
			continue
		}
		p, err := startPair(ctx, programs.Go, s, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		pairs = append(pairs, p)
	}
	step, steps := 0, len(o.Cases)*len(o.Sizes)
	for _, c := range Cases() {
		if !slices.Contains(o.Cases, c.Name) {
			continue
		}
		for _, size := range o.Sizes {
			progress.Step(step, steps, "%s %s", c.Name, benchfmt.FormatSize(size))
			step++
			figures, err := measure(ctx, programs.UCX, pairs, c, size, o)
			if err != nil {
				return fmt.Errorf("%s, %d bytes: %w", c.Name, size, err)
			}
			for _, f := range figures {
				if err := sink.Add(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure runs all rounds of one case and size.
func measure(ctx context.Context, peer UCX, pairs []*pair, c Case, size int64, o Options) ([]benchfmt.Figure, error) {
	ours := make([]benchfmt.Rounds, len(pairs))
	plain, tuned := benchfmt.Rounds{Better: benchfmt.Higher}, benchfmt.Rounds{Better: benchfmt.Higher}
	tunings := Tunings()
	for range o.Rounds {
		for i, p := range pairs {
			v, err := p.round(ctx, c, size, o.RoundTime)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.setting.Name, err)
			}
			ours[i].Better = benchfmt.Higher
			ours[i].Add(v)
		}
		if peer == nil {
			continue
		}
		v, err := theirs(ctx, peer, c, size, nil)
		if err != nil {
			return nil, err
		}
		plain.Add(v)
		// The first round determines the best tuning, which the others use.
		best := 0.0
		var winner []string
		for _, t := range tunings {
			v, err := theirs(ctx, peer, c, size, t)
			if err != nil {
				return nil, err
			}
			if v > best {
				best, winner = v, t
			}
		}
		tuned.Add(best)
		tunings = [][]string{winner}
	}
	var figures []benchfmt.Figure
	for i, p := range pairs {
		f := benchfmt.Figure{
			Bench: "staged", Case: c.Name, Setting: p.setting.Name, Transport: "tcp", Size: size, Mem: "cuda",
			Unit: benchfmt.UnitGBps, Better: benchfmt.Higher, Ours: ours[i].Best(), OursMedian: ours[i].Median(),
		}
		if peer == nil {
			figures = append(figures, f)
			continue
		}
		f.Peer, f.Theirs, f.TheirsMedian, f.Bar = PeerPlain, plain.Best(), plain.Median(),
			&benchfmt.Bar{Value: barPlain, Ratio: true}
		figures = append(figures, f)
		f.Peer, f.Theirs, f.TheirsMedian, f.Bar = PeerTuned, tuned.Best(), tuned.Median(),
			&benchfmt.Bar{Value: barTuned, Ratio: true}
		figures = append(figures, f)
	}
	return figures, nil
}

// theirs measures UCX, in GB/s.
func theirs(ctx context.Context, peer UCX, c Case, size int64, tuning []string) (float64, error) {
	r := benchpeer.PerftestRun{
		Test: "tag_bw", Size: size, Iterations: max(4, int(256<<20/size)), Warmup: 1, Window: c.Window,
		Memory: "cuda,cuda",
		Env:    append([]string{tls}, tuning...),
	}
	if c.Window == 1 {
		// a message, and after it the next one, back
		r.Test, r.Window, r.Iterations = "tag_lat", 0, r.Iterations/2
	}
	got, err := peer.Run(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("%v: %w", tuning, err)
	}
	if c.Window == 1 {
		if got.OverallMicros <= 0 {
			return 0, errors.New("no time in the result of ucx_perftest")
		}
		return benchfmt.GBps(float64(size), got.OverallMicros/1e6), nil
	}
	return benchfmt.GBpsFromMebi(got.OverallMiBps), nil
}
