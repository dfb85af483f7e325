package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	lockName       = "LOCK"
	logPrefix      = "log-"
	snapshotPrefix = "snapshot-"
	tmpSuffix      = ".tmp"
)

// segment is a file that is being written.
type segment struct {
	file    *os.File
	number  uint64
	salt    uint64
	size    int64
	records uint64
}

func fileName(prefix string, number uint64) string { return fmt.Sprintf("%s%016x", prefix, number) }

// newSalt returns a random number: clients must not be able to predict the checksums.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return le.Uint64(b[:])
}

// publish renames a file such that it exists with its contents after a crash.
func (j *Journal) publish(tmp, name string, f *os.File) error {
	if !j.opts.NoSync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(j.dir, tmp), filepath.Join(j.dir, name)); err != nil {
		return err
	}
	if j.opts.NoSync {
		return nil
	}
	return j.folder.Sync()
}

// takeLock makes this process the owner of the folder until the file is closed, or the process ends.
func takeLock(dir string) (*os.File, error) {
	f, err := openFile(dir, lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid := make([]byte, 20)
		n, _ := f.ReadAt(pid, 0)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: process %s; stop it or use another folder", ErrLocked,
				strings.TrimSpace(string(pid[:n])))
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	// Only for the message above: the lock is the flock, not the contents of the file.
	pid := append(strconv.AppendInt(nil, int64(os.Getpid()), 10), '\n')
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt(pid, 0)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
	return f, nil
}

// contents lists the files of a folder.
type contents struct {
	logs     []uint64 // in order, at or above the snapshot
	snapshot uint64   // 0: none
	garbage  []string // files left by an interrupted rotation or compaction
}

// list reads the folder and checks that no file of the chain is missing.
func list(dir string) (contents, error) {
	var c contents
	entries, err := os.ReadDir(dir)
	if err != nil {
		return c, err
	}
	var snapshots []uint64
	for _, e := range entries {
		name := e.Name()
		if name == HistoryFolder && e.IsDir() {
			continue
		}
		if !e.Type().IsRegular() && !strings.HasSuffix(name, tmpSuffix) {
			return c, fmt.Errorf("%w: %s is not a plain file", ErrUnsafe, filepath.Join(dir, name))
		}
		if strings.HasSuffix(name, tmpSuffix) {
			c.garbage = append(c.garbage, name)
		} else if n, ok := number(name, logPrefix); ok {
			c.logs = append(c.logs, n)
		} else if n, ok := number(name, snapshotPrefix); ok {
			snapshots = append(snapshots, n)
		} else if name != lockName {
			return c, fmt.Errorf("%s is not a file of a journal; use a separate folder for the journal", name)
		}
	}
	slices.Sort(c.logs)
	if len(snapshots) > 0 {
		c.snapshot = slices.Max(snapshots)
	}
	for _, n := range snapshots {
		if n != c.snapshot {
			c.garbage = append(c.garbage, fileName(snapshotPrefix, n))
		}
	}
	covered, _ := slices.BinarySearch(c.logs, c.snapshot)
	for _, n := range c.logs[:covered] {
		c.garbage = append(c.garbage, fileName(logPrefix, n))
	}
	c.logs = c.logs[covered:]
	next := max(c.snapshot, 1)
	for _, n := range c.logs {
		if n != next {
			return c, fmt.Errorf("%w: %s is missing, %s exists", ErrCorrupt, fileName(logPrefix, next),
				fileName(logPrefix, n))
		}
		next++
	}
	// A rotation publishes the new segment before a snapshot can replace the old ones.
	if c.snapshot > 0 && len(c.logs) == 0 {
		return c, fmt.Errorf("%w: %s is missing after %s", ErrCorrupt, fileName(logPrefix, c.snapshot),
			fileName(snapshotPrefix, c.snapshot))
	}
	return c, nil
}

func number(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && n > 0
}
