package ucxbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// Bench is the name of the benchmark in figures.
const Bench = "ucx"

// Run measures all jobs of the options and passes each figure to sink immediately. A job that fails does not stop the
// others; Run returns an error that names it. A missing peer is an error before the first measurement.
func Run(ctx context.Context, starter Starter, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	if err := o.Complete(); err != nil {
		return err
	}
	jobs, err := o.jobs()
	if err != nil {
		return err
	}
	r := &runner{starter: starter, options: o, sink: sink, progress: progress}
	defer r.close()
	end := time.Now().Add(QuickTime)
	for i, j := range jobs {
		progress.Step(i, len(jobs), "%s", j)
		if o.Quick {
			r.stop = time.Now().Add(time.Until(end) / time.Duration(len(jobs)-i))
		}
		if err := r.job(ctx, j); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var missing *benchpeer.MissingError
			if errors.As(err, &missing) || errors.Is(err, ErrUnavailable) {
				return err
			}
			r.failed = append(r.failed, fmt.Errorf("%s: %w", j, err))
			r.closePair() // its state is unknown
		}
	}
	progress.Clear()
	return r.verdict(len(jobs))
}

type runner struct {
	starter  Starter
	options  Options
	sink     benchfmt.Sink
	progress *benchfmt.Progress

	pair   *Pair
	of     group
	env    []string
	peers  []peer
	stop   time.Time // with Quick: no further round of a job after that
	failed []error

	// counter is the library that counts driver calls of mapping cases, and counterDir the folder of its files, which
	// is removed by close.
	counter, counterDir string
}

// verdict returns an error for the jobs that failed.
func (r *runner) verdict(total int) error {
	switch len(r.failed) {
	case 0:
		return nil
	case 1:
		return r.failed[0]
	default:
		return fmt.Errorf("%d of %d measurements failed; first error: %w", len(r.failed), total, r.failed[0])
	}
}

// open starts a pair for the job unless it runs.
func (r *runner) open(ctx context.Context, j Job) error {
	if r.pair != nil && r.of == j.group() {
		return nil
	}
	r.closePair()
	env, err := SettingEnv(j.Setting, j.Mem)
	if err != nil {
		return err
	}
	if j.Case.Kind == Mapping {
		count, err := r.countEnv(ctx)
		if err != nil {
			return err
		}
		env = append(env, count...)
	}
	pair, err := StartPair(ctx, r.starter, env, OpenArgs{Mode: j.Mode, Endpoint: j.Endpoint,
		Device: deviceOf(j, r.options.Device), Stage: r.options.Stage})
	if err != nil {
		return err
	}
	r.pair, r.of, r.env = pair, j.group(), env
	return r.findPeers(pair.Library)
}

// findPeers finds the peer programs when the UCX library that they must use is known.
func (r *runner) findPeers(library string) error {
	if r.peers != nil || len(r.options.Peers) == 0 {
		return nil
	}
	for _, name := range r.options.Peers {
		switch name {
		case benchpeer.PerftestName:
			tool, err := benchpeer.FindPerftest(library, r.starter.Environ)
			if err != nil {
				return err
			}
			r.peers = append(r.peers, perftestPeer{tool})
		case PeerModeNone:
			r.peers = append(r.peers, &modeNonePeer{starter: r.starter, device: r.options.Device})
		default:
			tool, err := benchpeer.FindUCXX(name, r.starter.Environ)
			if err != nil {
				return err
			}
			r.peers = append(r.peers, ucxxPeer{tool})
		}
	}
	return nil
}

// job measures one figure in alternating rounds: ours, each peer, ours, …
func (r *runner) job(ctx context.Context, j Job) error {
	if err := r.open(ctx, j); err != nil {
		return err
	}
	if j.Case.Kind == Mapping {
		return r.mapping(ctx, j)
	}
	spec, err := r.pair.calibrate(ctx, j, r.options)
	if err != nil {
		return err
	}
	ours := benchfmt.Rounds{Better: j.Case.Better()}
	allocs := benchfmt.Rounds{Better: benchfmt.Lower}
	theirs := make([]benchfmt.Rounds, len(r.peers))
	broken := make([]error, len(r.peers))
	rounds := r.options.Rounds
	if j.Case.Kind == Idle {
		rounds = 1 // long, and a mean value
	}
	for round := range rounds {
		if round > 0 && !r.stop.IsZero() && time.Now().After(r.stop) {
			break
		}
		spec.Seed = rand.Uint64()
		s, err := r.pair.Run(ctx, spec)
		if err != nil {
			return err
		}
		v, err := value(j, s)
		if err != nil {
			return err
		}
		ours.Add(v)
		if s.Operations > 0 {
			allocs.Add(float64(s.Allocs) / float64(s.Operations))
		}
		for i, p := range r.peers {
			if broken[i] != nil || !p.applies(j) || !r.options.compares(p.name(), j) {
				continue
			}
			theirs[i].Better = j.Case.Better()
			limited, cancel := context.WithTimeoutCause(ctx, peerTimeout,
				fmt.Errorf("no result within %v", peerTimeout))
			v, err := p.measure(limited, j, spec, r.env)
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				broken[i] = err
				continue
			}
			theirs[i].Add(v)
		}
	}
	if err := r.report(j, &ours, theirs); err != nil {
		return err
	}
	if j.Case.Kind == Rate {
		f := r.pair.figure(j)
		f.Case, f.Unit, f.Better = j.Case.Name+"-allocs", benchfmt.UnitAllocs, benchfmt.Lower
		f.Ours = math.Round(allocs.Best()*100) / 100 // the rest is from the Go runtime
		if err := r.sink.Add(f); err != nil {
			return err
		}
	}
	for i, err := range broken {
		if err != nil {
			r.failed = append(r.failed, fmt.Errorf("%s: peer %s: %w", j, r.peers[i].name(), err))
		}
	}
	return nil
}

// report adds one figure per peer that ran, or one without a peer.
func (r *runner) report(j Job, ours *benchfmt.Rounds, theirs []benchfmt.Rounds) error {
	f := r.pair.figure(j)
	f.Ours = ours.Best()
	compared := false
	for i := range theirs {
		if theirs[i].Len() == 0 {
			continue
		}
		compared = true
		f.Peer, f.Theirs = r.peers[i].name(), theirs[i].Best()
		r.progress.Clear()
		if err := r.sink.Add(f); err != nil {
			return err
		}
	}
	if compared {
		return nil
	}
	r.progress.Clear()
	return r.sink.Add(f)
}

func (r *runner) closePair() {
	if r.pair != nil {
		r.pair.Close()
		r.pair = nil
	}
}

func (r *runner) close() {
	r.closePair()
	for _, p := range r.peers {
		p.close()
	}
	if r.counterDir != "" {
		os.RemoveAll(r.counterDir)
	}
}
