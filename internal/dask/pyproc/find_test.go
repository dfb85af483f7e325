package pyproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script writes a program that acts as an interpreter.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	real := interpreter(t)
	good := script(t, dir, "good/python3", `echo 3.12.1 2026.1.0 2026.1.1`)
	other := script(t, dir, "env/bin/python", `echo 3.13.0 2026.2.0 2026.2.0`)
	script(t, dir, "bare/python3", `echo "no module distributed" >&2; exit 1`)
	script(t, dir, "odd/python", `echo something else`)
	clear := func() {
		t.Setenv(EnvPython, "")
		t.Setenv("VIRTUAL_ENV", "")
		t.Setenv("PATH", "/bin:/usr/bin")
	}
	clear()
	in, err := Find(ctx, real)
	if err != nil || in.Path != real || in.From != "--python" || !strings.HasPrefix(in.Python, "3.") ||
		in.Distributed == "" || in.Dask == "" {
		t.Errorf("the real one: %+v, %v", in, err)
	}
	t.Setenv(EnvPython, good)
	if in, err := Find(ctx, ""); err != nil || in.Path != good || in.From != EnvPython || in.Distributed != "2026.1.1" {
		t.Errorf("by the variable: %+v, %v", in, err)
	}
	clear()
	t.Setenv("VIRTUAL_ENV", filepath.Join(dir, "env"))
	if in, err := Find(ctx, ""); err != nil || in.Path != other || in.From != "VIRTUAL_ENV" {
		t.Errorf("by the environment: %+v, %v", in, err)
	}
	clear()
	t.Setenv("PATH", filepath.Join(dir, "bare")+":"+filepath.Join(dir, "odd")+":"+filepath.Join(dir, "good"))
	if in, err := Find(ctx, ""); err != nil || in.Path != good || in.From != "PATH" {
		t.Errorf("by the path: %+v, %v", in, err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bare")+":"+filepath.Join(dir, "odd"))
	_, err = Find(ctx, "")
	for _, text := range []string{"no module distributed", "unexpected output \"something else",
		"pip install distributed", "--python", EnvPython} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
	t.Setenv("PATH", dir)
	if _, err = Find(ctx, ""); err == nil || !strings.Contains(err.Error(), "no python3 or python on PATH") {
		t.Errorf("got %v, want no python3 or python on PATH", err)
	}
	if _, err = Find(ctx, "/nowhere/python"); err == nil || !strings.Contains(err.Error(), "interpreter of --python") {
		t.Errorf("got %v, want an error about --python", err)
	}
}

func TestEnvironmentOf(t *testing.T) {
	dir := t.TempDir()
	program := script(t, dir, "env/bin/millstream", "")
	if got := environmentOf(program); got != "" {
		t.Errorf("outside of an environment: got %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "env/pyvenv.cfg"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := environmentOf(program), filepath.Join(dir, "env/bin/python3"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
