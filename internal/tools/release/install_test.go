package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/sign"
)

// signedRelease returns a folder with archives whose program is a script, and the public key.
func signedRelease(t *testing.T) (dir, key string) {
	t.Helper()
	s := &source{dir: "../../..", version: "v0.1.0", time: time.Unix(1_700_000_000, 0)}
	script := []archive.File{{Name: "bin/millstream", Mode: 0o755, Data: []byte("#!/bin/sh\necho \"script $1\"\n")},
		{Name: "share/man/man1/millstream.1", Mode: 0o644, Data: []byte(".TH\n")}}
	dir = t.TempDir()
	for _, cgo := range []bool{true, false} {
		f, err := s.tarball(target{arch: runtime.GOARCH, cgo: cgo}, script)
		if err == nil {
			err = write(dir, &bytes.Buffer{}, f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	signer, err := sign.NewKey()
	if err == nil {
		err = sign.Folder(dir, signer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, sign.PublicKey)
}

// install runs scripts/install with a prefix and returns its output.
func install(t *testing.T, prefix string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"../../../scripts/install", "--prefix", prefix}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestInstall(t *testing.T) {
	dir, key := signedRelease(t)
	cases := [][]string{{"--from", dir}, {"--from", dir, "--static"}}
	if _, err := exec.LookPath("openssl"); err == nil {
		cases = append(cases, []string{"--from", dir, "--key", key})
	}
	for _, args := range cases {
		prefix := t.TempDir()
		out, err := install(t, prefix, args...)
		if err != nil || !strings.HasPrefix(out, "script version\n") || !strings.Contains(out, "add it to PATH") {
			t.Errorf("%q: got %s, %v", args, out, err)
		}
		if _, err := os.Stat(filepath.Join(prefix, "share/man/man1/millstream.1")); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestInstallRejects(t *testing.T) {
	dir, key := signedRelease(t)
	_, other := signedRelease(t)
	broken, _ := signedRelease(t)
	archives, err := filepath.Glob(filepath.Join(broken, "*.tar.gz"))
	if err != nil || len(archives) != 2 {
		t.Fatalf("got archives %q, %v", archives, err)
	}
	for _, name := range archives {
		if err := os.WriteFile(name, []byte("changed"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", dir, "--key", other}, "the signature of SHA256SUMS is not of"},
		{[]string{"--from", broken}, "is wrong"},
		{[]string{"--from", t.TempDir()}, "has no SHA256SUMS"},
		{[]string{"--key"}, "--key needs a value"},
		{[]string{"--other", key}, "unknown argument --other"},
	} {
		prefix := t.TempDir()
		out, err := install(t, prefix, c.args...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: got %s, %v, want an error with %q", c.args, out, err, c.want)
		}
		if left, _ := os.ReadDir(prefix); len(left) > 0 {
			t.Errorf("%q: installed %v", c.args, left)
		}
	}
}
