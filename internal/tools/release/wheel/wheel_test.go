package wheel

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

func sample() *Wheel {
	return &Wheel{Name: "mill-stone", Version: "0.1.0", Tag: "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64",
		Metadata: []string{"Summary: a mill", "Requires-Python: >=3.10"}, Readme: "# Mill",
		Time:     time.Unix(1_800_000_000, 0),
		Files:    []archive.File{{Name: "mill_stone.py", Mode: 0o644, Data: []byte("def main(): print('turned')\n")}},
		Scripts:  []archive.File{{Name: "mill", Mode: 0o755, Data: []byte("#!/bin/sh\necho ground\n")}},
		Commands: map[string]string{"turn": "mill_stone:main"}}
}

func TestBuild(t *testing.T) {
	w := sample()
	data, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := "mill_stone-0.1.0-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"
	if got := w.FileName(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = string(text)
	}
	for name, want := range map[string]string{
		"mill_stone-0.1.0.dist-info/METADATA": "Name: mill-stone\nVersion: 0.1.0\nSummary: a mill\n",
		"mill_stone-0.1.0.dist-info/WHEEL": "Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_x86_64\n" +
			"Tag: py3-none-musllinux_1_1_x86_64\n",
		"mill_stone-0.1.0.dist-info/entry_points.txt": "turn = mill_stone:main\n",
		"mill_stone-0.1.0.dist-info/RECORD":           "mill_stone-0.1.0.data/scripts/mill,sha256=",
		"mill_stone-0.1.0.data/scripts/mill":          "echo ground",
	} {
		if !strings.Contains(texts[name], want) {
			t.Errorf("%s: got %q, want %q in it", name, texts[name], want)
		}
	}
	again, err := sample().Build()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second wheel differs: %d and %d bytes, %v", len(data), len(again), err)
	}
}

// TestPip installs a wheel into an empty virtual environment, without an index.
func TestPip(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set; run scripts/setup peers and use scripts/in-env")
	}
	w := sample()
	w.Tag = "py3-none-any"
	data, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, w.FileName())
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "PIP_DISABLE_PIP_VERSION_CHECK=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	env := filepath.Join(dir, "env")
	run(python, "-m", "venv", "--without-pip", env)
	run(python, "-m", "pip", "--python", filepath.Join(env, "bin/python"), "install", "--quiet", "--no-index", file)
	for name, want := range map[string]string{"mill": "ground", "turn": "turned"} {
		if got := run(filepath.Join(env, "bin", name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestPlatform(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := Platform(data)
	if err != nil || !strings.HasPrefix(tag, "manylinux_2_") {
		t.Errorf("this test: got %q, %v", tag, err)
	}
	if _, err := Platform([]byte("text")); err == nil {
		t.Error("a text: no error")
	}
}
