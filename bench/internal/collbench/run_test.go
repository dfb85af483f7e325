package collbench

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// TestMain is also one of the ranks.
func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"rank": Serve})
	os.Exit(m.Run())
}

// figures runs the benchmark.
func figures(t *testing.T, all []Competitor, o Options) benchfmt.Figures {
	t.Helper()
	return benchtest.Figures(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, all, o, sink, nil)
	})
}

// TestRanks measures in real processes, in every setting, with small and large arrays.
func TestRanks(t *testing.T) {
	o := Options{Ranks: 3, Sizes: []int64{4, 1 << 20}, Rounds: 1, RoundTime: time.Millisecond, Settings: HostSettings()}
	var all []Competitor
	for _, s := range o.Settings {
		all = append(all, Ours(s, benchtest.Self("rank")))
	}
	got := figures(t, all, o)
	transports := map[string]string{"shm": "shm+tcp", "ucx": "ucx", "tcp": "tcp"}
	if len(got) != 6 {
		t.Errorf("%d figures, want 6", len(got))
	}
	for _, f := range got {
		if f.Ours <= 0 || f.Peer != "" || f.Transport != transports[f.Setting] {
			t.Errorf("%+v", f)
		}
	}
}

func fake(name, variant string, us float64) Competitor {
	return Competitor{Name: name, Variant: variant, Setting: "shm",
		measure: func(_ context.Context, o Options) ([]line, error) {
			var lines []line
			for _, n := range o.Sizes {
				lines = append(lines, line{Size: n, Micros: us})
			}
			return lines, nil
		}}
}

// TestBestVariantHasTheBar: of a peer that runs in two ways the faster is compared with.
func TestBestVariantHasTheBar(t *testing.T) {
	o := Options{Sizes: []int64{8}, Rounds: 2}
	all := []Competitor{fake("", "", 10), fake(OpenMPI, "default", 20), fake(OpenMPI, "yield", 12), fake(Gloo, "", 25)}
	got := figures(t, all, o)
	if len(got) != 3 || got[0].Bar != nil || got[1].Bar == nil || got[1].Mode != "yield" || got[2].Bar == nil {
		t.Fatalf("%+v", got)
	}
	if met, known := got[2].Met(); !met || !known {
		t.Errorf("10 against 25 is at least twice as fast: %+v", got[2])
	}
	plot := Plot(got, 4)
	if len(plot.Series) != 4 || plot.Series[0].Name != "Millstream shm" || len(plot.Series[0].Points) != 1 {
		t.Errorf("%+v", plot.Series)
	}
}

// TestPython: processes of Python are compared with mpi4py, Go programs with the other peers.
func TestPython(t *testing.T) {
	o := Options{Sizes: []int64{8}, Rounds: 1}
	python := fake("", "", 10)
	python.Setting = SettingPython
	all := []Competitor{fake("", "", 9), python, fake(MPI4Py, "default", 20), fake(MPI4Py, "yield", 12),
		fake(Gloo, "", 30)}
	var pairs []string
	for _, f := range figures(t, all, o) {
		pairs = append(pairs, f.Setting+" "+f.Peer+" "+f.Mode)
		if met, known := f.Met(); known != (f.Mode != "default") || known && !met {
			t.Errorf("%+v", f)
		}
	}
	if want := []string{"shm gloo ", "python mpi4py default", "python mpi4py yield"}; !slices.Equal(pairs, want) {
		t.Errorf("got %q, want %q", pairs, want)
	}
	dir := t.TempDir()
	t.Setenv("MILLSTREAM_LIBRARY", "")
	if _, err := OursInPython(dir, nil); err == nil || !strings.Contains(err.Error(), "make library") {
		t.Error(err)
	}
	script := filepath.Join(dir, "program")
	program := []byte("#!/bin/sh\necho \"$@\" $PYTHONPATH >&2; echo '{\"size\":8,\"us\":2}'\n")
	for _, path := range []string{script, filepath.Join(dir, "mpirun")} {
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MILLSTREAM_LIBRARY", script)
	ours, err := OursInPython(dir, &benchpeer.Program{Python: script, Script: "x.py"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MILLSTREAM_MPI4PY_PYTHON", script)
	if path, err := FindMPI4Py(os.Environ()); err != nil || path != script {
		t.Errorf("%q, %v", path, err)
	}
	peers := MPI4PyOf(&benchpeer.Program{Python: script, Script: "x.py"})
	if got := figures(t, append(peers, ours), o); len(got) != 2 || got[0].Ours != 2 || got[0].Theirs != 2 {
		t.Errorf("%+v", got)
	}
}

func TestOptions(t *testing.T) {
	benchtest.Rejects(t, &Options{Ranks: -1}, &Options{Sizes: []int64{3}}, &Options{Rounds: -1},
		&Options{Settings: []string{"carrier pigeon"}}, &Options{Settings: []string{"shm", SettingNCCL}})
	quick := Options{Quick: true}
	if err := quick.Complete(); err != nil || quick.Rounds != 2 || len(quick.Sizes) != 5 || quick.Ranks != 4 {
		t.Errorf("%+v, %v", quick, err)
	}
}

// TestDeviceOptions: device memory has ranks, sizes and bars of its own.
func TestDeviceOptions(t *testing.T) {
	o := Options{Settings: DeviceSettings()}
	if err := o.Complete(); err != nil || o.Ranks != 2 || o.Sizes[0] != 8 || !o.OnDevice() {
		t.Errorf("%+v, %v", o, err)
	}
	for _, tc := range []struct {
		setting, peer string
		size          int64
		want          float64
	}{{SettingNCCL, NCCL, 8, 1.05}, {SettingCUDA, NCCL, 8 << 20, 0.2}, {SettingCUDA, NCCL, 1 << 20, 0}, {"shm", Gloo, 8,
		0.5}} {
		b := bar(tc.setting, tc.peer, tc.size)
		if got := b != nil; got != (tc.want > 0) || got && b.Value != tc.want {
			t.Errorf("%s against %s at %d: %+v, want %v", tc.setting, tc.peer, tc.size, b, tc.want)
		}
	}
	t.Setenv("MILLSTREAM_NCCL_BENCH", "/nonexistent/bench")
	if _, err := FindNCCL(""); err == nil || !strings.Contains(err.Error(), "/nonexistent/bench") {
		t.Error(err)
	}
	t.Setenv("MILLSTREAM_NCCL_BENCH", "/proc/self/exe")
	if c, err := FindNCCL(""); err != nil || c.Name != NCCL {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestParseLines(t *testing.T) {
	out := "a word of the launcher\n{\"size\":4,\"us\":1.5}\n{\"size\":8,\"us\":2}\n"
	lines, err := parseLines([]byte(out), []int64{4, 8})
	if err != nil || len(lines) != 2 || lines[0].Micros != 1.5 {
		t.Errorf("%+v, %v", lines, err)
	}
	if _, err := parseLines([]byte(out), []int64{4}); err == nil {
		t.Error("a result too many is accepted")
	}
	if _, err := parseLines([]byte(out), []int64{8, 4}); err == nil {
		t.Error("results of other sizes are accepted")
	}
}

func TestMissingPeersAreNamed(t *testing.T) {
	t.Setenv("MILLSTREAM_OPENMPI", "")
	root := t.TempDir()
	if _, err := FindOpenMPI(root); err == nil || !strings.Contains(err.Error(), "scripts/setup collectives") {
		t.Error(err)
	}
	if _, err := FindTorch([]string{"MILLSTREAM_TORCH_PYTHON=/nowhere/python"}); err == nil ||
		!strings.Contains(err.Error(), "scripts/setup collectives") {
		t.Error(err)
	}
}
