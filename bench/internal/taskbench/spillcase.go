package taskbench

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/bench/benchfmt"
)

// CopyPeer is the name of copies between the GPU and pinned memory with package cuda alone.
const CopyPeer = "cuda"

const (
	// spillBytes is the size of the results of device-spill, spillLimit how much of them stays on the GPU.
	spillBytes = 64 << 20
	spillLimit = 4 << 30
	// spillCopies is the number of copies of the peer.
	spillCopies = 50
)

// spillSettings are the rates that a process of device-spill returns, in order.
var spillSettings = []string{"down, new host memory", "down", "up"}

// deviceSpill measures how fast a worker moves results between its GPU and host memory, from its metrics, and compares
// them with copies between the GPU and pinned memory.
func (b *bench) deviceSpill(ctx context.Context, c Case, step func(string, ...any)) error {
	ours, theirs := make([]benchfmt.Rounds, len(spillSettings)), make([]benchfmt.Rounds, len(spillSettings))
	for i := range ours {
		ours[i], theirs[i] = benchfmt.Rounds{Better: c.Better}, benchfmt.Rounds{Better: c.Better}
	}
	for round := range b.o.Rounds {
		step("round %d of %d: worker", round+1, b.o.Rounds)
		rates, err := b.spillOurs(ctx)
		if err != nil {
			return err
		}
		step("round %d of %d: %s", round+1, b.o.Rounds, CopyPeer)
		copies, err := b.spillPeer(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", CopyPeer, err)
		}
		for i := range spillSettings {
			ours[i].Add(rates[i] / 1e9)
			theirs[i].Add(copies[max(0, i-1)] / 1e9)
		}
	}
	for i, setting := range spillSettings {
		f := b.figure(c, ours[i], setting)
		f.Transport, f.Size, f.Mem = "pcie", spillBytes, "cuda-pool"
		f.Peer, f.Theirs, f.TheirsMedian, f.Bar = CopyPeer, theirs[i].Best(), theirs[i].Median(), ratio(0.7)
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// spillOurs runs one round of Millstream and returns the rates of spillSettings in bytes per second.
func (b *bench) spillOurs(ctx context.Context) ([]float64, error) {
	p, err := b.startProcess(ctx, side{"millstream", b.programs.Go})
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	a, err := p.ask(ctx, command{Do: "start-spill", Device: fmt.Sprint(b.o.Device), Size: spillBytes, Limit: spillLimit,
		Directory: b.dir})
	if err == nil {
		err = otherProcesses(a, 1)
	}
	if err != nil {
		return nil, err
	}
	n := 3 * spillLimit / spillBytes
	if b.o.Quick {
		n = 2 * spillLimit / spillBytes
	}
	a, err = b.profiled(ctx, p, command{Do: deviceSpill, N: n, Size: spillBytes, Limit: spillLimit})
	if err == nil && len(a.Rates) != len(spillSettings) {
		err = fmt.Errorf("got %d rates, want %d", len(a.Rates), len(spillSettings))
	}
	return a.Rates, err
}

// spillPeer returns the rates of copies from the GPU and to it, in a process of their own.
func (b *bench) spillPeer(ctx context.Context) ([]float64, error) {
	p, err := b.startProcess(ctx, side{CopyPeer, b.programs.Go})
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	a, err := p.ask(ctx, command{Do: "device-copies", Device: fmt.Sprint(b.o.Device), Size: spillBytes, N: spillCopies})
	if err == nil && len(a.Rates) != 2 {
		err = fmt.Errorf("got %d rates, want 2", len(a.Rates))
	}
	return a.Rates, err
}
