package taskbench

import (
	"context"

	"go.millstream.dev/internal/bench/benchfmt"
)

// spinSeconds bounds how long all slots compute during a fetch.
const spinSeconds = 60

// fetch measures a fetch between busy and between idle workers. The figure is the ratio of the two, next to that of
// Dask.
func (b *bench) fetch(ctx context.Context, c Case, step func(string, ...any)) error {
	sides := b.sides()
	rounds := make([][2]benchfmt.Rounds, len(sides)) // idle, busy
	var transport string
	for round := range b.o.Rounds {
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
	f := b.figure(c, rounds[0][1], "busy")
	f.Case, f.Transport, f.Size, f.Bar = c.Name+"-busy", transport, b.o.FetchBytes, ratio(0.3)
	f.Peer, f.Theirs, f.TheirsMedian = "idle", rounds[0][0].Best(), rounds[0][0].Median()
	return b.sink.Add(f)
}
