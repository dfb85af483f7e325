package collbench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// Competitor measures all sizes once.
type Competitor struct {
	// Name is the name of a peer, "" for Millstream.
	Name string
	// Variant distinguishes several configurations of one peer; the best of them is compared.
	Variant string
	// Setting is the setting of Millstream.
	Setting string
	mem     string // memory of the arrays if not host memory
	measure func(ctx context.Context, o Options) ([]line, error)
}

// Ours returns the competitor that measures package collective with a setting. start starts its ranks.
func Ours(setting string, start benchpeer.Starter) Competitor {
	return Competitor{Setting: setting, measure: func(ctx context.Context, o Options) ([]line, error) {
		return runRanks(ctx, setting, start, o)
	}}
}

// runRanks starts the ranks, sends them all addresses and reads the lines of rank 0.
func runRanks(ctx context.Context, setting string, start benchpeer.Starter, o Options) ([]line, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type rank struct {
		cmd *exec.Cmd
		in  *json.Encoder
		out *json.Decoder
		err bytes.Buffer
	}
	ranks := make([]*rank, o.Ranks)
	defer func() {
		cancel()
		for _, r := range ranks {
			if r != nil {
				_ = r.cmd.Wait()
			}
		}
	}()
	addresses := make([]string, o.Ranks)
	for i := range ranks {
		r := &rank{cmd: start(ctx)}
		r.cmd.Stderr = &r.err
		in, err := r.cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := r.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		r.in, r.out = json.NewEncoder(in), json.NewDecoder(out)
		if err := r.cmd.Start(); err != nil {
			return nil, err
		}
		ranks[i] = r
	}
	failed := func(i int, err error) ([]line, error) {
		cancel()
		_ = ranks[i].cmd.Wait()
		return nil, fmt.Errorf("rank %d: %w %s", i, err, strings.TrimSpace(ranks[i].err.String()))
	}
	for i, r := range ranks {
		var h hello
		if err := r.out.Decode(&h); err != nil {
			return failed(i, err)
		}
		addresses[i] = h.Address
	}
	for i, r := range ranks {
		if err := r.in.Encode(command{Rank: i, Addresses: addresses, Setting: setting, Sizes: o.Sizes,
			Seconds: o.RoundTime.Seconds()}); err != nil {
			return failed(i, err)
		}
	}
	var lines []line
	for range o.Sizes {
		var l line
		if err := ranks[0].out.Decode(&l); err != nil {
			return failed(0, err)
		}
		lines = append(lines, l)
	}
	for i, r := range ranks {
		if err := r.cmd.Wait(); err != nil {
			return nil, fmt.Errorf("rank %d: %w %s", i, err, strings.TrimSpace(r.err.String()))
		}
		ranks[i] = nil
	}
	return lines, nil
}

// program returns a competitor that is one command.
func program(start func(ctx context.Context, o Options) *exec.Cmd) func(ctx context.Context, o Options) ([]line,
	error) {
	return func(ctx context.Context, o Options) ([]line, error) {
		cmd := start(ctx, o)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lastLines(errOut.String()))
		}
		return parseLines(out.Bytes(), o.Sizes)
	}
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// parseLines parses the results of a program, which may print other lines.
func parseLines(out []byte, sizes []int64) ([]line, error) {
	var lines []line
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		var l line
		if json.Unmarshal(scan.Bytes(), &l) == nil && l.Size > 0 && l.Micros > 0 {
			lines = append(lines, l)
		}
	}
	if len(lines) != len(sizes) {
		return nil, fmt.Errorf("got %d results, want %d", len(lines), len(sizes))
	}
	for i, l := range lines {
		if l.Size != sizes[i] {
			return nil, fmt.Errorf("result for %d bytes, want %d", l.Size, sizes[i])
		}
	}
	return lines, nil
}

// key identifies a figure: one competitor and one size.
type key struct {
	competitor int
	size       int64
}

// bar returns the maximum ratio ours/theirs of times, nil for none.
func bar(setting, peer string, size int64) *benchfmt.Bar {
	switch {
	case peer == MPI4Py:
		return &benchfmt.Bar{Value: 1, Ratio: true}
	case peer == OpenMPI:
		return &benchfmt.Bar{Value: 1 / 0.8, Ratio: true}
	case peer == Gloo:
		return &benchfmt.Bar{Value: 0.5, Ratio: true}
	case setting == SettingNCCL:
		return &benchfmt.Bar{Value: 1.05, Ratio: true}
	case setting == SettingCUDA && size >= 8<<20:
		return &benchfmt.Bar{Value: 0.2, Ratio: true}
	}
	return nil
}

// Run runs the competitors alternately and adds a figure for each setting, size and peer. A peer with variants is
// represented by its best one; figures of the others have the variant as their mode and no bar.
func Run(ctx context.Context, all []Competitor, o Options, sink benchfmt.Sink, progress *benchfmt.Progress) error {
	rounds := map[key]*benchfmt.Rounds{}
	transports := map[int]string{}
	for round := range o.Rounds {
		for i, c := range all {
			progress.Step(round*len(all)+i, o.Rounds*len(all), "%s", c.label())
			lines, err := c.measure(ctx, o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.label(), err)
			}
			for _, l := range lines {
				k := key{i, l.Size}
				if rounds[k] == nil {
					rounds[k] = &benchfmt.Rounds{Better: benchfmt.Lower}
				}
				rounds[k].Add(l.Micros)
				transports[i] = l.Transport
			}
		}
	}
	return report(all, o, rounds, transports, sink)
}

func (c Competitor) label() string {
	if c.Name == "" {
		return "millstream " + c.Setting
	}
	return strings.TrimSpace(c.Name + " " + c.Variant)
}

func report(all []Competitor, o Options, rounds map[key]*benchfmt.Rounds, transports map[int]string,
	sink benchfmt.Sink) error {
	var err error
	for i, ours := range all {
		if ours.Name != "" {
			continue
		}
		for _, size := range o.Sizes {
			own := rounds[key{i, size}]
			f := benchfmt.Figure{Bench: "allreduce", Case: "float32-sum", Mem: ours.mem, Setting: ours.Setting,
				Transport: transports[i], Size: size, Unit: benchfmt.UnitMicros,
				Better: benchfmt.Lower, Ours: own.Best(), OursMedian: own.Median()}
			peers := 0
			for j, theirs := range all {
				if !matches(ours, theirs) {
					continue
				}
				peers++
				g := f
				t := rounds[key{j, size}]
				g.Peer, g.Mode, g.Theirs, g.TheirsMedian = theirs.Name, theirs.Variant, t.Best(), t.Median()
				if best(all, rounds, j, size) {
					g.Bar = bar(ours.Setting, theirs.Name, size)
				}
				err = errors.Join(err, sink.Add(g))
			}
			if peers == 0 {
				err = errors.Join(err, sink.Add(f))
			}
		}
	}
	return err
}

// matches reports whether a peer is compared with a setting: mpi4py only with the setting python.
func matches(ours, theirs Competitor) bool {
	return theirs.Name != "" && (theirs.Name == MPI4Py) == (ours.Setting == SettingPython)
}

// best reports whether competitor j is the fastest variant of its peer.
func best(all []Competitor, rounds map[key]*benchfmt.Rounds, j int, size int64) bool {
	for k, c := range all {
		if c.Name == all[j].Name && k != j {
			a, b := rounds[key{k, size}].Best(), rounds[key{j, size}].Best()
			if a < b || a == b && k < j {
				return false
			}
		}
	}
	return true
}
