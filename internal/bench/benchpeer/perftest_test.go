package benchpeer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// realPerftest is the installed program; make test installs it.
func realPerftest(t *testing.T) *Perftest {
	t.Helper()
	p, err := FindPerftest(os.Getenv("MILLSTREAM_UCX_LIBRARY"), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every test that the benchmarks use runs and gives believable numbers.
func TestPerftestRealTool(t *testing.T) {
	p := realPerftest(t)
	for _, test := range []string{
		"tag_lat", "tag_bw", "tag_sync_lat", "ucp_am_lat", "ucp_am_bw", "stream_lat", "stream_bw", "ucp_put_lat",
		"ucp_put_bw", "ucp_get",
	} {
		t.Run(test, func(t *testing.T) {
			r, err := p.Run(t.Context(), PerftestRun{Test: test, Size: 4096, Iterations: 200, Warmup: 10, Window: 4,
				Env: []string{"UCX_TLS=self,shm"}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Iterations < 200 || r.OverallMicros <= 0 || r.MedianMicros <= 0 || r.OverallMiBps <= 0 ||
				r.OverallRate <= 0 {
				t.Errorf("%+v", r)
			}
			// The columns must be the right ones: rate × size = bandwidth.
			if mib := r.OverallRate * 4096 / (1 << 20); mib < r.OverallMiBps*0.9 || mib > r.OverallMiBps*1.1 {
				t.Errorf("rate %v msg/s of 4 KiB does not match %v MiB/s", r.OverallRate, r.OverallMiBps)
			}
		})
	}
}

func TestPerftestErrors(t *testing.T) {
	p := realPerftest(t)
	for name, tc := range map[string]struct {
		run  PerftestRun
		want string
	}{
		"unknown test": {PerftestRun{Test: "no_such_test", Size: 8, Iterations: 1}, "no_such_test"},
		"unknown transport": {PerftestRun{Test: "tag_lat", Size: 8, Iterations: 10, Env: []string{"UCX_TLS=nonesuch"}},
			"tag_lat"},
		"no iterations": {PerftestRun{Test: "tag_lat", Size: 8}, "missing test name, size or iterations"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			if r, err := p.Run(ctx, tc.run); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%+v, %v; want an error with %q", r, err, tc.want)
			}
		})
	}
}

// A canceled run returns at once and leaves no process behind.
func TestPerftestCancel(t *testing.T) {
	p := realPerftest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := p.Run(ctx, PerftestRun{Test: "tag_lat", Size: 8, Iterations: 1 << 30})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if left := children(t, p.path); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// children lists processes of this one whose program is path.
func children(t *testing.T, path string) []string {
	t.Helper()
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		exe, err := os.Readlink(filepath.Join(filepath.Dir(stat), "exe"))
		if err != nil || exe != path {
			continue
		}
		text, _ := os.ReadFile(stat)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, stat)
		}
	}
	return found
}

func TestFindPerftest(t *testing.T) {
	dir := t.TempDir()
	program := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named := program("own/perftest")
	wheel := program("venv/libucx/bin/ucx_perftest")
	system := program("usr/bin/ucx_perftest")
	inPath := program("path/ucx_perftest")

	for _, tc := range []struct {
		name, library, path string
		env                 []string
		want                string
	}{
		{"named", dir + "/venv/libucx/lib/libucp.so.0", dir + "/path", []string{"MILLSTREAM_PERFTEST=" + named}, named},
		{"next to the library of a wheel", dir + "/venv/libucx/lib/libucp.so.0", dir + "/path", nil, wheel},
		{"next to the system library", dir + "/usr/lib/x86_64-linux-gnu/libucp.so.0", dir + "/path", nil, system},
		{"in PATH", dir + "/elsewhere/lib/libucp.so.0", dir + "/path", nil, inPath},
		{"in PATH without a library", "", dir + "/path", nil, inPath},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			p, err := FindPerftest(tc.library, tc.env)
			if err != nil || p.Path() != tc.want {
				t.Errorf("%v, %v; want %s", p, err, tc.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", dir)
		_, err := FindPerftest("/nowhere/deep/lib/libucp.so.0", nil)
		var missing *MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "scripts/setup perftest") ||
			!strings.Contains(err.Error(), "/nowhere/deep/lib/libucp.so.0") {
			t.Errorf("error %v", err)
		}
		_, err = FindPerftest("", []string{"MILLSTREAM_PERFTEST=/nowhere/p"})
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "/nowhere/p") ||
			!strings.Contains(err.Error(), "unset MILLSTREAM_PERFTEST") {
			t.Errorf("error %v", err)
		}
	})
}

func TestPerftestEnvironment(t *testing.T) {
	p := &Perftest{libraryDir: "/x/lib", environ: []string{"LD_LIBRARY_PATH=/old", "UCX_TLS=all"}}
	env := p.environment([]string{"UCX_TLS=tcp"})
	if getenv(env, "LD_LIBRARY_PATH") != "/x/lib:/old" || getenv(env, "UCX_TLS") != "tcp" {
		t.Errorf("%q", env)
	}
	if getenv(p.environ, "UCX_TLS") != "all" {
		t.Error("the caller's environment was changed")
	}
	p = &Perftest{environ: []string{"A=1"}}
	if env := p.environment(nil); getenv(env, "LD_LIBRARY_PATH") != "" || getenv(env, "A") != "1" {
		t.Errorf("%q", env)
	}
}

func TestParsePerftest(t *testing.T) {
	const heading = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
	r, err := parsePerftest("noise, with a comma\n" + heading +
		"10,9,9,9,9,9,9,9\n20000,0.486,0.490,0.491,15.59,15.60,2042788,2042789\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (PerftestResult{20000, 0.486, 0.491, 15.60, 2042789}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	for name, text := range map[string]string{
		"no result line": "",
		"no result":      heading,
		"no column":      "iterations,overall_lat\n1,2\n",
		"column":         heading + "x,1,1,1,1,1,1,1\n",
	} {
		if _, err := parsePerftest(text); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, " ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLastLine(t *testing.T) {
	for _, tc := range []struct {
		texts []string
		want  string
	}{
		{[]string{"", ""}, ""},
		{[]string{"a\nb\n\n"}, "b"},
		{[]string{"\n", "from stdout\n"}, "from stdout"},
		{[]string{"[1.2] [h:1] x.c:1 UCX  ERROR why\nafterwards\n"}, "[1.2] [h:1] x.c:1 UCX  ERROR why"},
	} {
		if got := lastLine(tc.texts...); got != tc.want {
			t.Errorf("%q: %q", tc.texts, got)
		}
	}
}
