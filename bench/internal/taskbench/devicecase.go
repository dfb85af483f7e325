package taskbench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Names of the peers of device-fetch.
const (
	// RawPeer is the peer that uses package ucx without tasks, between two processes.
	RawPeer = "ucx"
	// AsyncPeer is the asyncio API of UCXX.
	AsyncPeer = "ucxx-async"
)

// deviceShapes are the transfers of device-fetch: size and number of concurrent arrays.
var deviceShapes = []struct {
	size  int64
	parts int
	bar   float64 // target in comparison with package ucx, 0 for none
	async float64 // target in comparison with UCXX, 0 for none
}{
	{64 << 20, 32, 0.8, 0},
	{1 << 30, 1, 0.8, 0},
	{64 << 20, 1, 0, 1.2},
}

// devicePasses is the length of a fetch in windows of several arrays. Package ucx is also measured over many windows,
// so that they are full most of the time in both.
const devicePasses = 4

// devicePool is the GPU memory of each worker in bytes: arrays of 8 GiB twice, because those of the last fetch may not
// have been released, and those of two chains of 20 arrays of 1 GiB.
const devicePool = 44 << 30

// deviceFetch measures fetches of GPU memory between two workers on one GPU, from their records, and compares them with
// package ucx without tasks and with UCXX.
func (b *bench) deviceFetch(ctx context.Context, c Case, step func(string, ...any)) error {
	if b.programs.Raw == nil {
		return errors.New("no program for package ucx alone")
	}
	type sides struct{ ours, raw, async benchfmt.Rounds }
	rounds := make([]sides, len(deviceShapes))
	for i := range rounds {
		rounds[i] = sides{benchfmt.Rounds{Better: c.Better}, benchfmt.Rounds{Better: c.Better},
			benchfmt.Rounds{Better: c.Better}}
	}
	var transport string
	for round := range b.o.Rounds {
		step("round %d of %d: workers", round+1, b.o.Rounds)
		got, at, err := b.deviceOurs(ctx)
		if err != nil {
			return err
		}
		transport = at
		for i, s := range deviceShapes {
			rounds[i].ours.Add(got[i])
			step("round %d of %d: %s", round+1, b.o.Rounds, RawPeer)
			v, err := b.programs.Raw(ctx, b.o.Device, s.size, s.parts)
			if err != nil {
				return fmt.Errorf("%s: %w", RawPeer, err)
			}
			rounds[i].raw.Add(v)
			if s.async == 0 || b.programs.Async == nil {
				continue
			}
			step("round %d of %d: %s", round+1, b.o.Rounds, AsyncPeer)
			if v, err = b.programs.Async(ctx, s.size); err != nil {
				return fmt.Errorf("%s: %w", AsyncPeer, err)
			}
			rounds[i].async.Add(v)
		}
	}
	for i, s := range deviceShapes {
		f := b.figure(c, rounds[i].ours, fmt.Sprintf("%d in flight", s.parts))
		f.Transport, f.Size, f.Mem = transport, s.size, "cuda-pool"
		f.Peer, f.Theirs, f.TheirsMedian = RawPeer, rounds[i].raw.Best(), rounds[i].raw.Median()
		if s.bar > 0 {
			f.Bar = ratio(s.bar)
		}
		if err := b.sink.Add(f); err != nil {
			return err
		}
		if s.async == 0 || b.programs.Async == nil {
			continue
		}
		f.Peer, f.Theirs, f.TheirsMedian, f.Bar = AsyncPeer, rounds[i].async.Best(), rounds[i].async.Median(),
			ratio(s.async)
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// deviceOurs runs one round of Millstream and returns GB/s for each shape.
func (b *bench) deviceOurs(ctx context.Context) (gbps []float64, transport string, err error) {
	p, err := b.startProcess(ctx, side{"millstream", b.programs.Go})
	if err != nil {
		return nil, "", err
	}
	defer p.Stop()
	a, err := p.ask(ctx, command{Do: "start-device", Device: fmt.Sprint(b.o.Device), Size: devicePool,
		Directory: b.dir})
	if err == nil {
		err = otherProcesses(a, 2)
	}
	if err != nil {
		return nil, "", err
	}
	for _, s := range deviceShapes {
		a, err := b.profiled(ctx, p, command{Do: deviceFetch, N: b.o.DeviceFetches, Size: s.size, Parts: s.parts})
		if err != nil {
			return nil, "", err
		}
		// Use the median of the fetches of a round: a single fast fetch on an idle machine is not typical.
		times := slices.Sorted(slices.Values(a.Times))
		if len(times) == 0 {
			return nil, "", errors.New("no fetch measured")
		}
		gbps = append(gbps, benchfmt.GBps(float64(a.Bytes), times[len(times)/2]))
		transport = a.Transport
	}
	return gbps, transport, nil
}
