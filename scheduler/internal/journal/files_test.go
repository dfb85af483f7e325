package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder that others may write to, such as a volume of a container, gets a subfolder for the journal, unless it has a
// journal or the subfolder belongs to another user.
func TestFolder(t *testing.T) {
	empty := func(mode os.FileMode) string {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	want := func(what, dir, folder string, unsafe error) {
		t.Helper()
		got, err := Folder(dir, true)
		if !errors.Is(err, unsafe) || unsafe == nil && got != folder {
			t.Errorf("%s: got %s, %v, want %s, %v", what, got, err, folder, unsafe)
		}
	}
	dir := empty(0o700)
	want("a folder of this user", dir, dir, nil)
	want("a folder that is not there", dir+"/x", dir+"/x", nil)
	if err := os.Mkdir(dir+"/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	want("the root of a file system", dir, filepath.Join(dir, OwnFolder), nil)

	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o775 | os.ModeSetgid} {
		dir = empty(mode)
		own := filepath.Join(dir, OwnFolder)
		if _, err := Folder(dir, false); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a volume without a journal, to be checked: got %v, want ErrUnsafe", err)
		}
		for range 2 {
			want("a volume", dir, own, nil)
			j, err := Open(own, Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}

	dir = empty(0o777)
	if err := os.WriteFile(filepath.Join(dir, fileName(logPrefix, 1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("a volume with a journal", dir, "", ErrUnsafe)
	dir = empty(0o777)
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, OwnFolder)); err != nil {
		t.Fatal(err)
	}
	want("a link", dir, "", ErrUnsafe)
}
