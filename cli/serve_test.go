package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/proc/cmdline"
)

func TestIsServer(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{[]string{"p", "worker"}, true},
		{[]string{"p", "scheduler", "--host", "127.0.0.1"}, true},
		{[]string{"p", "cuda-worker", "--help"}, true},
		{[]string{"p"}, false},
		{nil, false},
		{[]string{"p", "demo"}, false},
		{[]string{"p", "--", "worker"}, false},
		{[]string{"p", "-v", "worker"}, false},
	} {
		if got := isServer(tc.args); got != tc.want {
			t.Errorf("isServer(%q): got %v, want %v", tc.args, got, tc.want)
		}
	}
}

// The tree of a program has its name and the commands of servers alone.
func TestServerTree(t *testing.T) {
	var names []string
	for _, cmd := range serverTree("prog").Commands() {
		names = append(names, cmd.Name())
		if strings.Contains(cmd.Example, "millstream") || !strings.Contains(cmd.Example, "prog "+cmd.Name()) {
			t.Errorf("example of %s: got %q, want prog %[1]s", cmd.Name(), cmd.Example)
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(slices.Values(serverCommands)); !slices.Equal(names, want) {
		t.Errorf("commands: got %q, want %q", names, want)
	}
	for _, tc := range []struct {
		args []string
		code int
		out  string // in standard output
		err  string // in standard error
	}{
		{[]string{"cuda-worker", "--help"}, ExitOK, "prog cuda-worker [SCHEDULER] [flags]", ""},
		{[]string{"worker", "--nthread", "1"}, ExitUsage, "", "prog worker: unknown flag: --nthread; did you mean " +
			"--nthreads?"},
		{[]string{"cuda-worker", "--nanny"}, ExitUsage, "", "prog cuda-worker: --nanny: there is one worker process " +
			"for each GPU"},
		{[]string{"scheduler", "--version"}, ExitOK, "millstream ", ""},
		{[]string{"bench"}, ExitUsage, "", `prog: unknown command "bench"`},
	} {
		var out, errs bytes.Buffer
		code := cmdline.Run(t.Context(), serverTree("prog"), tc.args, nil, &out, &errs)
		if code != tc.code || !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) {
			t.Errorf("%q: got %d, %q, %q; want %d, %q, %q", tc.args, code, out.String(), errs.String(), tc.code, tc.out,
				tc.err)
		}
	}
}

// Flags that a command does not have are arguments of a preload, as in Dask.
func TestPreloadArgs(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"no preload", "scheduler --port 0 --color red", "scheduler --port 0 --color red"},
		{"dask-gateway",
			"scheduler --protocol tls --port 0 --preload dask_gateway.scheduler_preload --dg-api-address 127.0.0.1:0 " +
				"--dg-heartbeat-period 5",
			"scheduler --protocol tls --port 0 --preload dask_gateway.scheduler_preload -- --dg-api-address 127.0.0.1:0 " +
				"--dg-heartbeat-period 5"},
		{"between flags", "scheduler --x=1 --preload=m --y --port 0 --no-dashboard",
			"scheduler --preload=m --port 0 --no-dashboard -- --x=1 --y"},
		{"after --", "scheduler --preload m --x 1 -- --port 2", "scheduler --preload m -- --x 1 --port 2"},
		{"address of a worker", "worker tcp://127.0.0.1:1 --preload m --x 1 --nthreads 2",
			"worker tcp://127.0.0.1:1 --preload m --nthreads 2 -- --x 1"},
		{"negative number", "scheduler --preload m --x -1.5 --port 0", "scheduler --preload m --port 0 -- --x -1.5"},
		{"help", "scheduler --preload m --help", "scheduler --preload m --help"},
		{"other command", "status --preload m --x", "status --preload m --x"},
		{"value missing", "scheduler --preload m --port", "scheduler --preload m --port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := strings.Fields(c.args)
			got := preloadArgs(Command(), slices.Clone(args))
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %q\nwant %q", strings.Join(got, " "), c.want)
			}
		})
	}
}
