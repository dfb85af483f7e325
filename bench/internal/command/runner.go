package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/report"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

// benchmark describes one benchmark to the runner, which gives all of them the same flags, peers, rounds and reports.
// The pointers refer to fields of the options; a nil pointer means that the flag does not exist.
type benchmark struct {
	name, short, long, example string

	// cases and settings are selected by name.
	cases, settings choice
	// sizes are those of messages, buffers or arrays; sizesHelp describes them and the default.
	sizes     *[]int64
	sizesHelp string
	// flags adds flags of this benchmark only; values are for shell completion.
	flags  func(*pflag.FlagSet)
	values map[string][]string

	// peers are the names for --peers. bare are the peers of --peers without a value (default: all).
	peers, bare []string
	// rounds is the number of alternating rounds; counts is the statistic that is reported (default best), and
	// roundsHelp the default.
	rounds             *int
	counts, roundsHelp string
	roundTime          *time.Duration
	roundTimeHelp      string
	quick              *bool
	quickHelp          string

	// complete sets defaults and checks the options. It is called first; its errors are usage errors.
	complete func(*session) error
	// prepare finds the programs of the peers and returns the measurement. Nothing was printed before.
	prepare func(*session) (measurement, error)
	// plot draws the figures for --svg (default: a panel for each case).
	plot func([]benchfmt.Figure) io.WriterTo
}

// choice is a list of names from a known list.
type choice struct {
	chosen *[]string
	known  []string
	// help describes the default (default "all").
	help string
}

// measurement measures and passes each figure to the sink immediately.
type measurement func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error

// session is one run of a benchmark.
type session struct {
	// peers are the requested peers, sorted and each once.
	peers    []string
	programs []*benchpeer.Program
}

// wants reports whether a peer was requested.
func (s *session) wants(peer string) bool { return slices.Contains(s.peers, peer) }

// python unpacks a program of the peers for the duration of the run.
func (s *session) python(peer, script string) (*benchpeer.Program, error) {
	p, err := benchpeer.FindProgram(peer, script, os.Environ())
	return s.keep(p, err)
}

// keep registers a program to be closed at the end of the run.
func (s *session) keep(p *benchpeer.Program, err error) (*benchpeer.Program, error) {
	if err == nil {
		s.programs = append(s.programs, p)
	}
	return p, err
}

func (s *session) close() error {
	var all []error
	for _, p := range s.programs {
		all = append(all, p.Close())
	}
	return errors.Join(all...)
}

// allPeers is the value of --peers without a value.
const allPeers = "all"

// runFlags are the flags of the runner.
type runFlags struct {
	sizes string
	peers []string
	json  bool
	svg   string
	// record is the file of a report.Record.
	record string
}

// command returns the command of a benchmark.
func (b benchmark) command() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: b.name, Short: b.short, Long: b.long, Example: b.example,
		Args: func(_ *cobra.Command, args []string) error { return b.peerArguments(f, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	values := map[string][]string{"peers": b.peers}
	for _, c := range []struct {
		name string
		choice
	}{{"case", b.cases}, {"setting", b.settings}} {
		if c.chosen != nil {
			flags.StringSliceVar(c.chosen, c.name, nil, c.name+"s to run (default: "+cmp.Or(c.help, "all")+")")
			values[c.name] = c.known
		}
	}
	if b.sizes != nil {
		flags.StringVar(&f.sizes, "size", "", b.sizesHelp)
	}
	if b.flags != nil {
		b.flags(flags)
	}
	flags.StringSliceVar(&f.peers, "peers", nil, "programs to compare with: "+strings.Join(b.peers, ", ")+
		"; without a value all of them")
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(b.rounds, "rounds", 0, fmt.Sprintf("number of alternating rounds per figure; the %s counts "+
		"(default %s)",
		b.counted(), b.roundsHelp))
	if b.roundTime != nil {
		flags.DurationVar(b.roundTime, "round-time", 0, "duration of one round (default "+b.roundTimeHelp+")")
	}
	if b.quick != nil {
		flags.BoolVar(b.quick, "quick", false, b.quickHelp)
	}
	flags.BoolVar(&f.json, "json", false, "output as one JSON object per figure and line")
	flags.StringVar(&f.svg, "svg", "", "file for a plot")
	flags.StringVar(&f.record, "record", "", "file for the figures with machine and commit, for report")
	for name, list := range b.values {
		values[name] = list
	}
	for name, list := range values {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list,
			cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // only for an unknown flag
		}
	}
	return cmd
}

// counted returns the statistic that is reported.
func (b benchmark) counted() string { return cmp.Or(b.counts, "best") }

// peerArguments accepts `--peers ucx_perftest` (with a space): pflag does not pass the next word to a flag with an
// optional value, so it arrives here as an argument.
func (b benchmark) peerArguments(f *runFlags, args []string) error {
	if len(args) == 0 {
		return nil
	}
	bare := slices.Index(f.peers, allPeers)
	var names []string
	for _, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			if bare < 0 || !slices.Contains(b.peers, name) {
				return cmdline.Usagef("unexpected argument %q", arg)
			}
			names = append(names, name)
		}
	}
	f.peers = slices.Replace(f.peers, bare, bare+1, names...)
	return nil
}

// wanted returns the peers of --peers.
func (b benchmark) wanted(f *runFlags) ([]string, error) {
	var names []string
	for _, name := range f.peers {
		switch {
		case name == allPeers && b.bare != nil:
			names = append(names, b.bare...)
		case name == allPeers:
			names = append(names, b.peers...)
		case slices.Contains(b.peers, name):
			names = append(names, name)
		case len(b.peers) == 1:
			return nil, fmt.Errorf("unknown peer %q; want %s", name, b.peers[0])
		default:
			return nil, fmt.Errorf("unknown peer %q; want one of %s", name, strings.Join(b.peers, ", "))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// start parses the flags and completes the options. Its errors are usage errors.
func (b benchmark) start(f *runFlags) (*session, error) {
	s := &session{}
	var err error
	if s.peers, err = b.wanted(f); err != nil {
		return nil, err
	}
	if f.sizes != "" {
		if *b.sizes, err = benchfmt.ParseSizes(f.sizes); err != nil {
			return nil, err
		}
	}
	return s, b.complete(s)
}

// run runs the benchmark and prints its figures as a table or as JSON lines.
func (b benchmark) run(ctx context.Context, f *runFlags, stdout, stderr io.Writer) (err error) {
	s, err := b.start(f)
	if err != nil {
		return cmdline.Usage(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	measure, err := b.prepare(s)
	if err != nil {
		return err
	}
	var sink benchfmt.Sink = benchfmt.NewTable(stdout)
	if f.json {
		sink = benchfmt.NewJSONWriter(stdout)
	}
	kept := &keptFigures{Sink: sink}
	progress := benchfmt.NewProgress(stderr)
	begin := time.Now()
	err = measure(ctx, kept, progress)
	progress.Clear()
	if err == nil && f.svg != "" {
		draw := b.plot
		if draw == nil {
			draw = defaultPlot
		}
		err = writeSVG(f.svg, draw(kept.figures))
	}
	if err == nil && f.record != "" {
		err = report.New(os.Args[1:], b.counted(), kept.figures).Write(f.record)
	}
	// Print figures that were measured before an error or Ctrl-C.
	err = errors.Join(err, sink.Close())
	if err == nil && !f.json {
		fmt.Fprintf(stdout, "\n%s of %d rounds, %v in total\n", b.counted(), *b.rounds,
			time.Since(begin).Round(100*time.Millisecond))
	}
	return err
}

// keptFigures forwards figures and keeps them for a plot and a record.
type keptFigures struct {
	benchfmt.Sink
	figures []benchfmt.Figure
}

// Add forwards a figure.
func (k *keptFigures) Add(f benchfmt.Figure) error {
	k.figures = append(k.figures, f)
	return k.Sink.Add(f)
}

// writeSVG writes a plot to a file.
func writeSVG(path string, plot io.WriterTo) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := plot.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// aboutList returns the lines of a help text with names and descriptions.
func aboutList[T any](list []T, about func(T) (name, text string)) string {
	width := 0
	for _, v := range list {
		name, _ := about(v)
		width = max(width, len(name))
	}
	var out strings.Builder
	for _, v := range list {
		name, text := about(v)
		fmt.Fprintf(&out, "  %-*s %s\n", max(width, 11)+1, name, text)
	}
	return out.String()
}

// own returns a starter of another process of this program.
func own(args ...string) benchpeer.Starter {
	return func(ctx context.Context) *exec.Cmd { return ownCommand(ctx, args...) }
}

// ownCommand returns the command of another process of this program.
func ownCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0] // a binary with several commands is called by name
	return cmd
}
