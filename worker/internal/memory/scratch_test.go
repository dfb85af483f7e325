package memory

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Each user has a folder of its own, which no other user can have prepared.
func TestScratchDirectory(t *testing.T) {
	name := "dask-scratch-space-" + strconv.Itoa(os.Getuid())
	base := filepath.Join(t.TempDir(), "new")
	for range 2 { // made, and found
		dir, err := scratchDirectory(base)
		if err != nil || dir != filepath.Join(base, name) {
			t.Fatalf("got %q, %v, want %s in %s", dir, err, name, base)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v, want mode 0700", info, err)
		}
	}
	for what, tc := range map[string]struct {
		prepare func(path string) error
		want    string
	}{
		"a file": {func(p string) error { return os.WriteFile(p, nil, 0o600) }, "not a folder"},
		"a link": {func(p string) error { return os.Symlink(t.TempDir(), p) }, "not a folder"},
		"a writable one": {func(p string) error {
			return errorsOf(os.Mkdir(p, 0o700), os.Chmod(p, 0o777))
		}, "other users"},
		"of another user": {func(p string) error {
			return errorsOf(os.Mkdir(p, 0o700), os.Chown(p, os.Getuid()+1, -1))
		}, "owned by user"},
	} {
		if what == "of another user" && os.Getuid() != 0 {
			continue // only root can give a folder away
		}
		base := t.TempDir()
		if err := tc.prepare(filepath.Join(base, name)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if dir, err := scratchDirectory(base); err == nil || !strings.Contains(err.Error(), tc.want) ||
			!strings.Contains(err.Error(), "--local-directory") {
			t.Errorf("%s: got %q, %v, want an error with %q", what, dir, err, tc.want)
		}
	}
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}
