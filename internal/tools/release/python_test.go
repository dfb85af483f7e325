package main

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/tools/release/archive"
)

// smallProgram returns a static program of one line.
func smallProgram(t *testing.T) archive.File {
	t.Helper()
	repo, commit := repository(t, hello)
	s, err := checkout(t.Context(), repo, commit, "v0.1.0", filepath.Join(t.TempDir(), "source"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.build(t.Context(), target{arch: "amd64"}, "./cmd/hello")
	if err != nil {
		t.Fatal(err)
	}
	files[0].Name = "millstream"
	return files[0]
}

func TestWheel(t *testing.T) {
	s := &source{dir: "../../..", version: "v0.1.0"}
	f, err := s.wheel(smallProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "millstream-0.1.0-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"; f.Name != want {
		t.Errorf("got name %s, want %s", f.Name, want)
	}
	z, err := zip.NewReader(bytes.NewReader(f.Data), int64(len(f.Data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	for _, want := range []string{"millstream/__init__.py", "millstream/__main__.py",
		"millstream-0.1.0.data/scripts/millstream"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if _, err := s.wheel(archive.File{Name: "millstream", Data: []byte("text")}); err == nil {
		t.Error("a program that is a text: no error")
	}
}

func TestProjectMetadata(t *testing.T) {
	lines, err := projectMetadata([]byte("description = \"a mill\"\nrequires-python = \">=3.10\"\n" +
		"dependencies = [\n \"dask>=1\",\n \"distributed>=2\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Summary: a mill", "Requires-Python: >=3.10", "Requires-Dist: dask>=1",
		"Requires-Dist: distributed>=2"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in %q", want, lines)
		}
	}
	if _, err := projectMetadata(nil); err == nil {
		t.Error("an empty file: no error")
	}
}

// TestNames installs the wheel of names next to a stand-in of the program, which prints its arguments.
func TestNames(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set; run scripts/setup peers and use scripts/in-env")
	}
	s := &source{dir: "../../..", version: "v0.1.0"}
	names, err := s.names()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := write(dir, &bytes.Buffer{}, names); err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(dir, "env")
	for _, args := range [][]string{{"-m", "venv", "--without-pip", env}, {"-m", "pip", "--python",
		filepath.Join(env, "bin/python"), "install", "--quiet", "--no-index", filepath.Join(dir, names.Name)}} {
		if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	command := func() (string, error) {
		cmd := exec.Command(filepath.Join(env, "bin/dask-worker"), "tcp://127.0.0.1:1", "--nthreads", "2")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	script := []byte("#!/bin/sh\necho \"$@\"\n")
	if err := os.WriteFile(filepath.Join(env, "bin/millstream"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := command(); got != "worker tcp://127.0.0.1:1 --nthreads 2" {
		t.Errorf("got %q, %v", got, err)
	}
}
