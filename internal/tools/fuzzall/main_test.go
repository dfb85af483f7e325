package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.org/m\n\ngo 1.26\n",
		"good_test.go": "package m\nimport \"testing\"\nfunc FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }\n",
		"bad_test.go":  "package m\nimport \"testing\"\nfunc FuzzBad(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Error(\"always\") }) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if err := run(t.Context(), 100*time.Millisecond, `\.FuzzGood$`); err != nil {
		t.Errorf("good target: %v", err)
	}
	if err := run(t.Context(), 100*time.Millisecond, ""); err == nil || !strings.Contains(err.Error(), "1 of 2 targets failed: example.org/m.FuzzBad") {
		t.Errorf("bad target: error %v", err)
	}
	if err := run(t.Context(), time.Second, "nothing"); err == nil {
		t.Error("no target: want an error")
	}
	if err := run(t.Context(), time.Second, "("); err == nil {
		t.Error("bad pattern: want an error")
	}
}
