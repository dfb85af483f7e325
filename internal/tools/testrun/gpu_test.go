package main

import (
	"os"
	"strings"
	"testing"

	"go.millstream.dev/internal/tools/gpurecord"
)

// TestStaleGPU: a record with the hash of the sources is current until one of them changes, and never fails the run.
func TestStaleGPU(t *testing.T) {
	module(t, map[string]string{"p/p_test.go": passing, "p/p.go": "package p\n", "docs/README.md": "none\n"})
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	hashes, err := gpurecord.Sources(t.Context(), root, []string{"example.org/m/p"})
	if err != nil {
		t.Fatal(err)
	}
	record := &gpurecord.Record{
		Device: "d", Driver: "1", CUDA: "13", UCX: "1.21", Commit: "c", Date: "2026-01-01", Sources: hashes,
		Tests: []gpurecord.Test{{Package: "example.org/m/p", Name: "TestGPUTwo"}},
	}
	if err := record.Save("docs/gpu-run.json"); err != nil {
		t.Fatal(err)
	}
	if ok, out := testRun(t, options{}); !ok || strings.Contains(out, "stale") {
		t.Errorf("current: run = %t, want true and no stale test:\n%s", ok, out)
	}
	if err := os.WriteFile("p/p.go", []byte("package p\n\nvar X int\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, out := testRun(t, options{}); !ok || !strings.Contains(out, "stale example.org/m/p: TestGPUTwo\n") {
		t.Errorf("changed: run = %t, want true and the stale test:\n%s", ok, out)
	}
}
