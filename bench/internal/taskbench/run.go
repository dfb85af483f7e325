package taskbench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/secure"
)

// Programs start the processes of each side. Python is nil without a peer.
type Programs struct {
	Go, Python benchpeer.Starter
	// Raw returns the bandwidth of package ucx alone between two processes on a GPU, with the given number of messages
	// of a size in flight, in GB/s. Async returns that of the asyncio API of UCXX, one message after the other; it may
	// be nil. Both are for device-fetch.
	Raw   func(ctx context.Context, device int, size int64, parts int) (float64, error)
	Async func(ctx context.Context, size int64) (float64, error)
	// RawHost is Raw for host memory, with one message in flight, for fetch and client-fetch. It may be nil.
	RawHost func(ctx context.Context, size int64) (float64, error)
}

// bench is one run.
type bench struct {
	programs Programs
	o        Options
	sink     benchfmt.Sink
	progress *benchfmt.Progress
	dir      string // temporary folder: certificates, files of Dask, journals
	started  int    // number of processes so far, for names of profiles
}

// Run measures according to the options, alternating between the sides, and passes each figure to the sink immediately.
func Run(ctx context.Context, programs Programs, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) (err error) {
	b := &bench{programs: programs, o: o, sink: sink, progress: progress}
	if b.dir, err = os.MkdirTemp("", "millstream-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if o.Peer {
		ca, err := secure.NewCA(secure.CAConfig{})
		if err != nil {
			return err
		}
		if _, err := ca.WriteFiles(filepath.Join(b.dir, "certs")); err != nil {
			return err
		}
	}
	for i, c := range Cases() {
		if !slices.Contains(o.Cases, c.Name) {
			continue
		}
		step := func(format string, args ...any) {
			progress.Step(i, len(Cases()), "%s %s", c.Name, fmt.Sprintf(format, args...))
		}
		switch c.Name {
		case schedulerOnly:
			err = b.schedulerOnly(ctx, c, step)
		case dashboardCase:
			err = b.dashboard(ctx, c, step)
		case fetch:
			err = b.fetch(ctx, c, step)
		case clientFetch:
			err = b.clientFetch(ctx, c, step)
		case deviceFetch:
			err = b.deviceFetch(ctx, c, step)
		case deviceSpill:
			err = b.deviceSpill(ctx, c, step)
		default:
			err = b.versus(ctx, c, step)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// side is one side of the comparison.
type side struct {
	name  string // for messages
	start benchpeer.Starter
}

func (b *bench) sides() []side {
	s := []side{{"millstream", b.programs.Go}}
	if b.o.Peer {
		s = append(s, side{PeerName, b.programs.Python})
	}
	return s
}

// process is a running process of a side.
type process struct {
	*benchpeer.Lines
	name string
}

// startProcess starts a process, with a profile if profiles are enabled.
func (b *bench) startProcess(ctx context.Context, s side) (*process, error) {
	p, err := benchpeer.StartLines(ctx, s.start, nil)
	if err != nil {
		return nil, err
	}
	return &process{p, s.name}, nil
}

func (p *process) ask(ctx context.Context, c command) (answer, error) {
	var a answer
	if err := p.Ask(ctx, c, &a); err != nil {
		return answer{}, fmt.Errorf("%s: %s: %w", p.name, c.Do, err)
	}
	return a, nil
}

// cluster starts the process of a side and a cluster in it.
func (b *bench) cluster(ctx context.Context, s side, workers int) (*process, error) {
	p, err := b.startProcess(ctx, s)
	if err != nil {
		return nil, err
	}
	a, err := p.ask(ctx, command{Do: "start", Workers: workers, Threads: b.o.Threads,
		Certs: filepath.Join(b.dir, "certs"), Directory: b.dir})
	if err == nil {
		err = otherProcesses(a, workers)
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// otherProcesses checks that each worker is a separate process.
func otherProcesses(a answer, workers int) error {
	pids := slices.Sorted(slices.Values(a.Pids))
	if len(slices.Compact(pids)) != workers || slices.Contains(a.Pids, a.Pid) {
		return fmt.Errorf("%d workers run in processes %v, the client in process %d; want separate processes",
			workers, a.Pids, a.Pid)
	}
	return nil
}

// profiled runs a command with a CPU profile of the process, if profiles are enabled.
func (b *bench) profiled(ctx context.Context, p *process, c command) (answer, error) {
	if b.o.Profile == "" || p.name == PeerName {
		return p.ask(ctx, c)
	}
	b.started++
	path, err := filepath.Abs(filepath.Join(b.o.Profile, fmt.Sprintf("%s-%d-%s.pprof", c.Do, b.started, p.name)))
	if err != nil {
		return answer{}, err
	}
	if _, err := p.ask(ctx, command{Do: "profile", Path: path}); err != nil {
		return answer{}, err
	}
	a, err := p.ask(ctx, c)
	if err != nil {
		return answer{}, err
	}
	_, err = p.ask(ctx, command{Do: "profile"})
	return a, err
}

func (b *bench) setting(workers int) string { return fmt.Sprintf("%d x %d tls", workers, b.o.Threads) }
