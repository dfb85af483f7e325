package ucxbench

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// PeerModeNone is the name of our own endpoint in error mode none, as a peer:
// it shows what noticing a dead peer costs.
const PeerModeNone = "error-mode-none"

// peerTimeout bounds one round of a peer: a peer that hangs is a failed
// measurement, not the end of the run.
const peerTimeout = 60 * time.Second

// PeerNames are the programs to compare with.
var PeerNames = []string{benchpeer.PerftestName, benchpeer.UCXXAsyncName, benchpeer.UCXXCoreName, PeerModeNone}

// DefaultPeers are those of a bare --peers.
var DefaultPeers = []string{benchpeer.PerftestName, benchpeer.UCXXAsyncName, benchpeer.UCXXCoreName}

// peer measures the same thing with another program.
type peer interface {
	name() string
	// applies says whether the peer can measure a job at all.
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
	}
	switch j.Case.Kind {
	case Bandwidth:
		run.Window = spec.Window
	case Rate:
		run.Window = spec.Goroutines
	case Latency:
		run.Window = 1
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

// modeNonePeer is a second pair of our own processes.
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

// deviceOf is the CUDA device a job needs; -1 keeps CUDA out of the process.
func deviceOf(j Job, device int) int {
	if onDevice(j.Mem) {
		return device
	}
	return -1
}

// value turns a sample into the figure of a job.
func value(j Job, s Sample) (float64, error) {
	if s.Seconds <= 0 || s.Operations <= 0 && j.Case.Kind != Idle {
		return 0, fmt.Errorf("%s: an empty sample: %+v", j, s)
	}
	perOperation := s.Seconds / float64(max(s.Operations, 1))
	switch j.Case.Kind {
	case Latency:
		if j.Case.API == "get" {
			return benchfmt.Micros(perOperation), nil // a read has no way back to halve
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
