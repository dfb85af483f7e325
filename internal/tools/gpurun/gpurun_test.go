package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/gpurecord"
)

const verbose = `=== RUN   TestGPUGood
=== RUN   TestGPUGood/sub
--- PASS: TestGPUGood (1.25s)
    --- PASS: TestGPUGood/sub (0.50s)
=== RUN   TestGPUBad
    x_test.go:3: why
--- FAIL: TestGPUBad (0.00s)
=== RUN   TestGPUSkipped
--- SKIP: TestGPUSkipped (0.00s)
=== RUN   TestGPUCut
=== RUN   TestGPUCut/sub
panic: boom
`

func TestParse(t *testing.T) {
	got := parse(strings.NewReader(verbose))
	want := outcome{
		passed:  []gpurecord.Test{{Name: "TestGPUGood", Seconds: 1.25}},
		failed:  []string{"TestGPUBad", "TestGPUCut (did not finish)"},
		skipped: []string{"TestGPUSkipped"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parse:\n got %+v\nwant %+v", got, want)
	}
}

func TestParseSMI(t *testing.T) {
	for _, c := range []struct{ in, device, driver string }{
		{"NVIDIA H200, 580.65.06\n", "NVIDIA H200", "580.65.06"},
		{"A, 1\nA, 1\n", "2 × A", "1"},
	} {
		device, driver, err := parseSMI(c.in)
		if err != nil || device != c.device || driver != c.driver {
			t.Errorf("parseSMI(%q) = %q, %q, %v", c.in, device, driver, err)
		}
	}
	if _, _, err := parseSMI("No devices were found\n"); err == nil {
		t.Error("no devices: want an error")
	}
}

func script(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestRunBundle runs a bundle whose parts are shell scripts: what the runner reads from them and writes is
// the same as with the real ones.
func TestRunBundle(t *testing.T) {
	dir := t.TempDir()
	script(t, filepath.Join(dir, "bin", "nvidia-smi"), `case "$*" in
*query*) echo "NVIDIA H200, 580.65.06" ;;
*) echo "| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |" ;;
esac
`)
	script(t, filepath.Join(dir, "ucx", "bin", "ucx_info"), "echo '# Library version: 1.21.0'\n")
	script(t, filepath.Join(dir, "tests", "ucx", "ucx.test"), "echo '=== RUN   TestGPUGood'; cat data; echo '--- "+
		"PASS: TestGPUGood (0.50s)'; echo PASS\n")
	if err := os.WriteFile(filepath.Join(dir, "tests", "ucx", "data"), []byte("read in the package's folder\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bundle.json"),
		[]byte(`{"commit":"abc","module":"go.millstream.dev","sources":{"go.millstream.dev/ucx":"h"}}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("MILLSTREAM_UCX_LIBRARY", filepath.Join(dir, "ucx", "lib", "libucp.so.0"))
	if err := os.MkdirAll(filepath.Join(dir, "ucx", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "gpu-run.json")
	if err := run(t.Context(), []string{"-dir", dir, "-out", out}); err != nil {
		t.Fatal(err)
	}
	r, err := gpurecord.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	want := &gpurecord.Record{
		Device: "NVIDIA H200", Driver: "580.65.06", CUDA: "13.0", UCX: "1.21.0", Commit: "abc",
		Date:    time.Now().UTC().Format(time.DateOnly),
		Sources: map[string]string{"go.millstream.dev/ucx": "h"},
		Tests:   []gpurecord.Test{{Package: "go.millstream.dev/ucx", Name: "TestGPUGood", Seconds: 0.5}},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("record:\n got %+v\nwant %+v", r, want)
	}

	script(t, filepath.Join(dir, "tests", "mem", "mem.test"), "echo '=== RUN   TestGPUCut'; exit 2\n")
	script(t, filepath.Join(dir, "tests", "cuda", "cuda.test"), "echo '--- SKIP: TestGPULazy (0.00s)'\n")
	err = run(t.Context(), []string{"-dir", dir, "-out", out})
	if err == nil {
		t.Fatal("a test that did not finish and one that skipped: want an error")
	}
	for _, s := range []string{"go.millstream.dev/mem TestGPUCut (did not finish)",
		"go.millstream.dev/cuda TestGPULazy was skipped"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error lacks %q: %v", s, err)
		}
	}
}

// TestStale makes a record of a bundle's description and asks about it.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write("p/p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestGPUOne(t *testing.T) {}\n")
	write("q/q_test.go", "package q\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {}\n")
	t.Chdir(dir)
	var out bytes.Buffer
	if err := stale(t.Context(), &out); err == nil || out.String() != "example.org/m/p: TestGPUOne\n" {
		t.Errorf("no record: %v, output %q; want an error and the test", err, out.String())
	}
	out.Reset()
	if err := describeBundle(t.Context(), &out, "abc"); err != nil {
		t.Fatal(err)
	}
	var b bundle
	if err := json.Unmarshal(out.Bytes(), &b); err != nil || b.Commit != "abc" || b.Module != "example.org/m" ||
		len(b.Sources) != 1 {
		t.Errorf("bundle %+v, %v; want the commit, the module and one hash", b, err)
	}
	record := gpurecord.Record{Sources: b.Sources}
	if err := os.Mkdir("docs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := record.Save("docs/gpu-run.json"); err != nil {
		t.Fatal(err)
	}
	if err := stale(t.Context(), &out); err != nil {
		t.Errorf("current: %v", err)
	}
	write("p/p.go", "package p\n")
	if err := stale(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "1 of 1 GPU tests") {
		t.Errorf("new source: %v, want an error", err)
	}
}

// TestRunBinaryGrandchild: a child that a test left behind holds the pipe open.
func TestRunBinaryGrandchild(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.test")
	script(t, file, "sleep 60 & echo $! > pid; echo '--- PASS: TestGPUX (0.00s)'\n")
	var log bytes.Buffer
	begin := time.Now()
	o, err := runBinary(t.Context(), file, ".", time.Minute, &log)
	if err != nil || len(o.passed) != 1 {
		t.Errorf("runBinary = %+v, %v", o, err)
	}
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("took %s: the left-over child held it up", d)
	}
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(file), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	kill(t, strings.TrimSpace(string(pid)))
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Errorf("kill %d: %v", n, err)
	}
}
