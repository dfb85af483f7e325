package buildid

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestCurrent(t *testing.T) {
	b := Current()
	if len(b.ID) != 16 || b.Program != filepath.Base(os.Args[0]) || b != Current() {
		t.Errorf("got %+v, want 16 hex digits and the program %s", b, filepath.Base(os.Args[0]))
	}
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, ok := FromFile(f)
	if !ok || shorten(id) != b.ID {
		t.Errorf("the file's ID is %s, the process has %s", shorten(id), b.ID)
	}
	if goBuildID(f) == "" {
		t.Error("no ID of the go command was found in a test binary")
	}
}

// TestChangedCode builds a program twice, with and without a change in the body of a function: the IDs differ, also if
// the ID of the go command was removed or replaced by a constant.
func TestChangedCode(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/x\n\ngo 1.24\n")
	build := func(factor, flags string) string {
		t.Helper()
		write("main.go", "package main\n\nfunc main() { println(len(\"abc\") * "+factor+") }\n")
		out := filepath.Join(dir, "program")
		cmd := exec.Command("go", "build", "-ldflags="+flags, "-o", out, ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		id, ok := FromFile(f)
		if !ok {
			t.Fatalf("no ID of a program that was built with %q", flags)
		}
		return shorten(id)
	}
	for _, flags := range []string{"", "-buildid=", "-buildid=redacted"} {
		one, again, two := build("1", flags), build("1", flags), build("2", flags)
		if one != again {
			t.Errorf("flags %q: the same code has the IDs %s and %s", flags, one, again)
		}
		if one == two {
			t.Errorf("flags %q: changed code has the same ID %s", flags, one)
		}
	}
}

func TestNotes(t *testing.T) {
	note := func(name, desc string, kind uint32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
		b = binary.LittleEndian.AppendUint32(b, kind)
		for _, s := range []string{name, desc} {
			b = append(b, s...)
			b = append(b, make([]byte, (4-len(s)%4)%4)...)
		}
		return b
	}
	good := note("Go\x00\x00", "a/b/c", 4)
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{good, "a/b/c"},
		{append(note("GNU\x00", "xyz", 3), good...), "a/b/c"},
		{good[:len(good)-4], ""},
		{note("GNU\x00", "xyz", 3), ""},
		{[]byte{1, 2, 3}, ""},
		{binary.LittleEndian.AppendUint32(nil, 1<<31), ""},
	} {
		if got := noteBuildID(c.in, binary.LittleEndian); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
	if got := goBuildID(bytes.NewReader([]byte("MZ...\xff Go build ID: \"one/two\"\n \xff..."))); got != "two" {
		t.Errorf("marked ID: got %q, want two", got)
	}
}

func TestText(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	if got := revisionOf(info); got != "v1.2.3" {
		t.Errorf("got %q, want the version", got)
	}
	info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: strings.Repeat("a", 40)},
		{Key: "vcs.modified", Value: "true"}}
	b := Build{ID: "1", Program: "app", Revision: revisionOf(info)}
	if got, want := b.String(), "app (build 1, revision aaaaaaaaaaaa+changes)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
