// Package peerpython finds the Python interpreter of the peers of the interop tests, which has the packages of Dask.
package peerpython

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of the interpreter. The root is the folder of the repository, relative to that of the test.
func Path(t testing.TB, root string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".local", "venv", "bin", "python"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no Python of the peers: %v (run scripts/setup peers)", err)
	}
	return path
}
