package ucxbench

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// PeerModeNone is the name of Millstream with endpoints in error mode none, as a peer. It shows the cost of detecting a
// lost peer.
const PeerModeNone = "error-mode-none"

// peerTimeout bounds one round of a peer: a peer that hangs fails one measurement, not the run.
const peerTimeout = 60 * time.Second

// PeerNames are the names of all peers.
var PeerNames = []string{benchpeer.PerftestName, benchpeer.UCXXAsyncName, benchpeer.UCXXCoreName, PeerModeNone}

// DefaultPeers are the peers of --peers without a value.
var DefaultPeers = []string{benchpeer.PerftestName, benchpeer.UCXXAsyncName, benchpeer.UCXXCoreName}

// peer measures the same thing with another program.
type peer interface {
	name() string
	// applies reports whether the peer can measure a job.
	applies(Job) bool
	// measure runs one round and returns a number in the unit of the case.
	measure(ctx context.Context, j Job, spec Spec, env []string) (float64, error)
	close()
}

type perftestPeer struct{ tool *benchpeer.Perftest }

func (p perftestPeer) name() string { return benchpeer.PerftestName }
func (p perftestPeer) close()       {}

func (p perftestPeer) applies(j Job) bool { return j.Case.Perftest != "" && j.Size > 0 }

func (p perftestPeer) measure(ctx context.Context, j Job, spec Spec, env []string) (float64, error) {
	run := benchpeer.PerftestRun{
		Test: j.Case.Perftest, Size: j.Size, Iterations: spec.Iterations, Warmup: spec.Warmup, Env: env,
		Window: places(j.Case, spec),
	}
	if onDevice(j.Mem) {
		run.Memory = "cuda"
	}
	r, err := p.tool.Run(ctx, run)
	if err != nil {
		return 0, err
	}
	switch j.Case.Kind {
	case Latency:
		return r.OverallMicros, nil
	case Bandwidth:
		return benchfmt.GBpsFromMebi(r.OverallMiBps), nil
	default:
		return r.OverallRate, nil
	}
}

// modeNonePeer is a second pair of Millstream processes.
type modeNonePeer struct {
	starter Starter
	device  int
	pair    *Pair
	of      group
}

func (p *modeNonePeer) name() string { return PeerModeNone }
func (p *modeNonePeer) applies(j Job) bool {
	return j.Endpoint != EndpointAddress && j.Case.Kind != Idle
}

func (p *modeNonePeer) measure(ctx context.Context, j Job, spec Spec, env []string) (float64, error) {
	if p.pair == nil || p.of != j.group() {
		p.close()
		pair, err := StartPair(ctx, p.starter, env, OpenArgs{Mode: j.Mode, Endpoint: EndpointAddress,
			Device: deviceOf(j, p.device)})
		if err != nil {
			return 0, err
		}
		p.pair, p.of = pair, j.group()
	}
	s, err := p.pair.Run(ctx, spec)
	if err != nil {
		p.close()
		return 0, err
	}
	return value(j, s)
}

func (p *modeNonePeer) close() {
	if p.pair != nil {
		p.pair.Close()
		p.pair = nil
	}
}

// deviceOf returns the CUDA device of a job; -1 keeps CUDA out of the process.
func deviceOf(j Job, device int) int {
	if onDevice(j.Mem) {
		return device
	}
	return -1
}

// value converts a sample to the figure of a job.
func value(j Job, s Sample) (float64, error) {
	if s.Seconds <= 0 || s.Operations <= 0 && j.Case.Kind != Idle {
		return 0, fmt.Errorf("%s: empty sample: %+v", j, s)
	}
	perOperation := s.Seconds / float64(max(s.Operations, 1))
	switch j.Case.Kind {
	case Latency:
		if j.Case.API == "get" {
			return benchfmt.Micros(perOperation), nil // a read is one way
		}
		return benchfmt.Micros(perOperation) / 2, nil
	case Bandwidth:
		return benchfmt.GBps(float64(j.Size), perOperation), nil
	case Rate:
		return 1 / perOperation, nil
	default:
		return s.CPUSeconds / s.Seconds * 100, nil
	}
}
