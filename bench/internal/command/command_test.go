package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"go.millstream.dev/cli"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/ucxbench"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/proc/cmdline"
)

// The test binary is the command too: scripts and the children of benchmarks run it. `millstream bench X` is what
// users write.
func TestMain(m *testing.M) {
	childproc.NoRaceSleep()
	testscript.Main(m, map[string]func(){"millstream": func() {
		cli.Serve()
		args := os.Args[1:]
		if len(args) > 0 && args[0] == "bench" {
			args = args[1:]
		}
		os.Exit(cmdline.RunProcess(Command(), args))
	}})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			repository, err := filepath.Abs("../../..") // where the programs of the peers are
			if err != nil {
				return err
			}
			env.Setenv("REPOSITORY", repository)
			for _, name := range []string{"MILLSTREAM_UCX_LIBRARY", "MILLSTREAM_PERFTEST", "LD_LIBRARY_PATH",
				"GORACE"} {
				if v, ok := os.LookupEnv(name); ok {
					env.Setenv(name, v)
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "gpu" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return cuda.Available() == nil, nil
		},
	})
}

// Every command explains itself, and reads as `millstream bench`.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range Command().Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if want := "millstream bench " + cmd.Name(); cmd.CommandPath() != want {
			t.Errorf("path: got %q, want %q", cmd.CommandPath(), want)
		}
		if cmd.Hidden {
			continue
		}
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: short %q, long %q, example %q", cmd.Name(), cmd.Short, cmd.Long, cmd.Example)
		}
		for line := range strings.Lines(cmd.Long) {
			if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > 82 {
				t.Errorf("%s: help line of %d characters: %q", cmd.Name(), len([]rune(line)), line)
			}
		}
	}
}

// A wrong command line is one line on standard error and exit code 2.
func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"ucx", "--mode", "x"}, "millstream bench ucx: unknown mode"},
		{[]string{"--quick"}, "; known to millstream bench "},
		{[]string{"ucy"}, `unknown command "ucy"; did you mean ucx?`},
		{[]string{"ucx", "--case", "tag-latency"}, `unknown case "tag-latency"; known: tag-lat, `},
		{[]string{"ucx", "--size", "1KiB-"}, "want a number of bytes"},
		{[]string{"ucx", "--rounds", "-3"}, "at least 1"},
		{[]string{"ucx", "--peers=mpi"}, `unknown peer "mpi"; want one of ucx_perftest, `},
		{[]string{"ucx", "ucx_perftest"}, `unexpected argument "ucx_perftest"`},
		{[]string{"ucx", "--peers", "nonsense"}, `unexpected argument "nonsense"`},
	} {
		var out, errs bytes.Buffer
		code := cmdline.Run(t.Context(), Command(), tc.args, nil, &out, &errs)
		if text := errs.String(); code != cmdline.ExitUsage || out.Len() != 0 || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, tc.want) || !strings.HasPrefix(text, "millstream bench") {
			t.Errorf("%q: got %d, %q, %q; want %d and %q", tc.args, code, out.String(), text, cmdline.ExitUsage,
				tc.want)
		}
	}
}

func TestPeerArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
		bad  bool
	}{
		{args: []string{"--peers"}, want: "ucx_perftest,ucxx-async,ucxx-core"},
		{args: []string{"--peers", "ucx_perftest"}, want: "ucx_perftest"},
		{args: []string{"--peers=ucxx-core,ucx_perftest"}, want: "ucx_perftest,ucxx-core"},
		{args: []string{"--peers", "ucxx-core,error-mode-none"}, want: "error-mode-none,ucxx-core"},
		{args: []string{"--peers", "--quick"}, want: "ucx_perftest,ucxx-async,ucxx-core"},
		{args: []string{"ucx_perftest"}, bad: true},
		{args: []string{"--peers", "ucx_perftest", "x"}, bad: true},
	} {
		var got []string
		b := ucxBenchmark(&ucxbench.Options{})
		b.prepare = func(s *session) (measurement, error) {
			got = s.peers
			return func(context.Context, benchfmt.Sink, *benchfmt.Progress) error { return nil }, nil
		}
		cmd := b.command()
		cmd.SetArgs(tc.args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		if (err != nil) != tc.bad || err == nil && strings.Join(got, ",") != tc.want {
			t.Errorf("%q: got peers %q, error %v; want %q, error %t", tc.args, got, err, tc.want, tc.bad)
		}
	}
}

// Every benchmark has the flags that the runner gives to all.
func TestSharedFlags(t *testing.T) {
	for _, cmd := range Command().Commands() {
		if cmd.Hidden || slices.Contains([]string{"help", "completion", "report"}, cmd.Name()) {
			continue
		}
		for _, name := range []string{"peers", "rounds", "quick", "json", "record"} {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s: no flag --%s", cmd.CommandPath(), name)
			}
		}
	}
}
