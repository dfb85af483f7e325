package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.millstream.dev"
)

func TestMain(m *testing.M) {
	millstream.Main()
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	var files []string
	for name, text := range map[string]string{"a": "The mill, the stream.", "b": "the Stream (again)", "c": ""} {
		files = append(files, filepath.Join(t.TempDir(), name))
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", files); err != nil {
		t.Fatal(err)
	}
	if want := "     3 the\n     2 stream\n     1 again\n     1 mill\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if err := run(t.Context(), &out, "", []string{"no such file"}); err == nil {
		t.Error("a file that does not exist has words")
	}
}
