package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dirPrefix is the prefix of the directories of stores, lockName the file in one that its owner keeps locked.
const (
	dirPrefix = "millstream-storage-"
	lockName  = "lock"
)

// directory is the directory of the files of one store. The operating system releases the lock when the process ends.
type directory struct {
	path string
	lock *os.File
	next uint64 // number of the next file; guarded by Store.mu
}

// openDirectory creates a directory below parent, and removes those whose owners are gone.
func openDirectory(parent string) (*directory, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	path, err := "", error(nil)
	for range 10 { // another process may remove an empty parent when it ends
		if err = os.MkdirAll(parent, 0o700); err != nil {
			break
		}
		removeStale(parent)
		if path, err = os.MkdirTemp(parent, dirPrefix); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("worker/store: directory for spilled data (--local-directory): %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("worker/store: directory for spilled data %s: %w", path, err)
	}
	return &directory{path: path, lock: lock}, nil
}

// removeStale removes the directories of killed processes. A directory without a lock is just being created.
func removeStale(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // the next store tries again
	}
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) <= len(dirPrefix) || e.Name()[:len(dirPrefix)] != dirPrefix {
			continue
		}
		path := filepath.Join(parent, e.Name())
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}

// name returns the path of a new file. The caller holds Store.mu.
func (d *directory) name() string {
	d.next++
	return filepath.Join(d.path, strconv.FormatUint(d.next, 10)+".spill")
}

func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	_ = d.lock.Close()
	if err != nil {
		return fmt.Errorf("worker/store: %w", err)
	}
	return nil
}
