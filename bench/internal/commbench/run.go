package commbench

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/dask/commpeer"
)

// Programs start the processes of pairs. Python is nil without a peer.
type Programs struct {
	Go, Python commpeer.Starter
}

// contest has the competitors of one figure: ours, and theirs if there is a peer.
type contest struct {
	name         string // endpoint in the figure: "" for Go alone
	ours, theirs [2]commpeer.Starter
}

// Run measures according to the options, alternating between the competitors, and passes each figure to the sink
// immediately.
func Run(ctx context.Context, programs Programs, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	g, py := programs.Go, programs.Python
	contests := []contest{{ours: [2]commpeer.Starter{g, g}, theirs: [2]commpeer.Starter{py, py}}}
	if o.Peer && o.Mixed {
		contests = append(contests,
			contest{name: "go-client", ours: [2]commpeer.Starter{py, g}, theirs: [2]commpeer.Starter{py, py}},
			contest{name: "python-client", ours: [2]commpeer.Starter{g, py}, theirs: [2]commpeer.Starter{py, py}})
	}
	for _, s := range Settings() {
		if !slices.Contains(o.Settings, s.Name) {
			continue
		}
		for _, k := range contests {
			if s.Name == inproc && k.name != "" {
				continue // one process cannot be both
			}
			if err := runContest(ctx, s, k, o, sink, progress); err != nil {
				return fmt.Errorf("%s %s: %w", s.Name, k.name, err)
			}
		}
	}
	return nil
}

func runContest(ctx context.Context, s Setting, k contest, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) error {
	pairs := make([]*pair, 0, 2)
	defer func() {
		for _, p := range pairs {
			p.stop()
		}
	}()
	sides := [][2]commpeer.Starter{k.ours}
	if o.Peer {
		sides = append(sides, k.theirs)
	}
	for _, side := range sides {
		p, err := startPair(ctx, side[0], side[1], s)
		if err != nil {
			return err
		}
		p.pause(true)
		pairs = append(pairs, p)
	}
	for i, c := range Cases() {
		if !slices.Contains(o.Cases, c.Name) || c.Name == "idle-cpu" && (k.name != "" || s.Name == inproc) {
			continue
		}
		if c.Size > 0 && o.echo > 0 {
			c.Size = o.echo
		}
		progress.Step(i, len(Cases()), "%s %s %s", s.Name, k.name, c.Name)
		f, err := measure(ctx, c, pairs, o)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		f.Setting, f.Endpoint = s.Name, k.name
		if err := sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, c Case, pairs []*pair, o Options) (benchfmt.Figure, error) {
	rounds := make([]benchfmt.Rounds, len(pairs))
	n := o.Rounds
	if c.Name == "idle-cpu" {
		n = 1
	}
	for range n {
		for i, p := range pairs {
			rounds[i].Better = c.Better
			p.pause(false)
			var v float64
			var err error
			if c.Name == "idle-cpu" {
				v, err = p.idle(ctx, o.IdleTime)
			} else {
				v, err = p.round(ctx, c, o.RoundTime)
			}
			if err != nil {
				return benchfmt.Figure{}, err
			}
			p.pause(true)
			rounds[i].Add(v)
		}
	}
	f := benchfmt.Figure{Bench: "comm", Case: c.Name, Size: c.Size, Unit: c.Unit, Better: c.Better,
		Ours: rounds[0].Best()}
	if len(pairs) > 1 {
		f.Peer, f.Theirs = PeerName, rounds[1].Best()
	}
	return f, nil
}
