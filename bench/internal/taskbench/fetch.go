package taskbench

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
)

// spinSeconds bounds how long all slots compute during a fetch.
const spinSeconds = 60

// hostBar is the target of fetches between idle workers in comparison with package ucx, clientBar that of fetches of
// the client.
const hostBar, clientBar = 0.85, 0.7

// fetch measures a fetch between busy and between idle workers. The figure is the ratio of the two, next to that of
// Dask, and for idle workers next to package ucx.
func (b *bench) fetch(ctx context.Context, c Case, step func(string, ...any)) error {
	sides := b.sides()
	rounds := make([][2]benchfmt.Rounds, len(sides)) // idle, busy
	var transport string
	raw := benchfmt.Rounds{Better: c.Better}
	for round := range b.o.Rounds {
		if err := b.rawHost(ctx, &raw, round, step); err != nil {
			return err
		}
		for i, s := range sides {
			step("round %d of %d: %s", round+1, b.o.Rounds, s.name)
			p, err := b.cluster(ctx, s, b.o.Workers)
			if err != nil {
				return err
			}
			for j, busy := range []bool{false, true} {
				a, err := b.profiled(ctx, p, command{Do: c.Name, N: b.o.Fetches, Size: b.o.FetchBytes, Busy: busy,
					Spin: spinSeconds, Directory: b.dir})
				var v float64
				if err == nil {
					v, err = value(c, a)
				}
				if err != nil {
					p.Stop()
					return err
				}
				rounds[i][j].Better = c.Better
				rounds[i][j].Add(v)
				if i == 0 {
					transport = a.Transport
				}
			}
			p.Stop()
		}
	}
	for j, setting := range []string{"idle", "busy"} {
		f := b.figure(c, rounds[0][j], setting)
		f.Transport, f.Size = transport, b.o.FetchBytes
		if len(sides) > 1 {
			f.Peer, f.Theirs, f.TheirsMedian = PeerName, rounds[1][j].Best(), rounds[1][j].Median()
		}
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	if b.programs.RawHost != nil {
		f := b.figure(c, rounds[0][0], "idle")
		f.Transport, f.Size, f.Bar = transport, b.o.FetchBytes, ratio(hostBar)
		f.Peer, f.Theirs, f.TheirsMedian = RawPeer, raw.Best(), raw.Median()
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	f := b.figure(c, rounds[0][1], "busy")
	f.Case, f.Transport, f.Size, f.Bar = c.Name+"-busy", transport, b.o.FetchBytes, ratio(0.3)
	f.Peer, f.Theirs, f.TheirsMedian = "idle", rounds[0][0].Best(), rounds[0][0].Median()
	return b.sink.Add(f)
}

// rawHost measures package ucx alone in host memory.
func (b *bench) rawHost(ctx context.Context, r *benchfmt.Rounds, round int, step func(string, ...any)) error {
	if b.programs.RawHost == nil {
		return nil
	}
	step("round %d of %d: %s", round+1, b.o.Rounds, RawPeer)
	v, err := b.programs.RawHost(ctx, b.o.FetchBytes)
	if err != nil {
		return fmt.Errorf("%s: %w", RawPeer, err)
	}
	r.Add(v)
	return nil
}

// clientFetch measures Result of large results of one worker: of the first one of a client, and the best of later ones.
func (b *bench) clientFetch(ctx context.Context, c Case, step func(string, ...any)) error {
	raw := benchfmt.Rounds{Better: c.Better}
	rounds := [2]benchfmt.Rounds{{Better: c.Better}, {Better: c.Better}} // first, next
	for round := range b.o.Rounds {
		if err := b.rawHost(ctx, &raw, round, step); err != nil {
			return err
		}
		step("round %d of %d: millstream", round+1, b.o.Rounds)
		p, err := b.cluster(ctx, side{"millstream", b.programs.Go}, b.o.Workers)
		if err != nil {
			return err
		}
		a, err := b.profiled(ctx, p, command{Do: c.Name, N: b.o.Fetches, Size: b.o.FetchBytes})
		p.Stop()
		if err != nil {
			return err
		}
		if len(a.Times) < 2 {
			return fmt.Errorf("got %d times, want %d", len(a.Times), 1+b.o.Fetches)
		}
		rounds[0].Add(benchfmt.GBps(float64(a.Bytes), a.Times[0]))
		rounds[1].Add(benchfmt.GBps(float64(a.Bytes), slices.Min(a.Times[1:])))
	}
	for i, setting := range []string{"first", "next"} {
		f := b.figure(c, rounds[i], setting)
		f.Size = b.o.FetchBytes
		if b.programs.RawHost != nil {
			f.Bar, f.Peer, f.Theirs, f.TheirsMedian = ratio(clientBar), RawPeer, raw.Best(), raw.Median()
		}
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}
