package pyproc

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// home is the private folder of an isolated child: its home, its caches and, without a mount namespace, its temporary
// folder. In a mount namespace it is in memory and ends with the child; otherwise it is a folder on disk, which this
// process monitors and removes.
type home struct {
	path   string
	onDisk bool
	limit  int64
}

// newHome returns the folder for a child at a level. A folder on disk is created.
func newHome(cfg Config, l level) (*home, error) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	name := hex.EncodeToString(b[:])
	if l.mounts() {
		return &home{path: "/tmp/millstream-" + name}, nil
	}
	base, err := homesOfProcess()
	if err != nil {
		return nil, fmt.Errorf("pyproc: %s: private folder: %w", cfg.Name, err)
	}
	h := &home{path: filepath.Join(base, name), onDisk: true, limit: cfg.Limits.Disk}
	if err := os.Mkdir(h.path, 0o700); err != nil {
		return nil, fmt.Errorf("pyproc: %s: private folder: %w", cfg.Name, err)
	}
	return h, nil
}

func (h *home) remove() {
	if h.onDisk {
		_ = os.RemoveAll(h.path)
	}
}

// watchInterval is the interval at which the size of a folder on disk is measured.
const watchInterval = time.Second

// watch removes the folder when the child has ended, and kills a child whose folder exceeds the limit.
func (h *home) watch(p *Process) {
	if !h.onDisk {
		return
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer h.remove()
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-p.ended:
				return
			case <-tick.C:
			}
			if n := folderSize(h.path, h.limit); h.limit > 0 && n > h.limit {
				p.end(fmt.Errorf("killed: private folder larger than %d bytes", h.limit))
			}
		}
	}()
}

// folderSize returns the size of the files in a folder in bytes, or a number above limit as soon as they exceed it.
func folderSize(dir string, limit int64) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed in the meantime
		}
		if info, err := d.Info(); err == nil {
			total += max(info.Size(), 512)
		}
		if total > limit {
			return fs.SkipAll
		}
		return nil
	})
	return total
}

// homesOfProcess returns the folder on disk for the private folders of the children of this process. It is locked until
// the process ends; folders of ended processes are removed.
var homesOfProcess = sync.OnceValues(func() (string, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("millstream-helpers-%d", os.Getuid()))
	if err := os.Mkdir(base, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(base, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder of user %d that others cannot write to; remove it", base, os.Getuid())
	}
	removeStale(base)
	dir, err := os.MkdirTemp(base, "scheduler-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	_, err = lockFolder(dir) // the descriptor stays open until the process ends
	return dir, err
})

// lockFolder locks a folder until the process ends.
func lockFolder(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// removeStale removes the folders of processes that have ended.
func removeStale(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), "scheduler-") || isRecent(e) {
			continue
		}
		fd, err := lockFolder(dir)
		if err != nil {
			continue // in use
		}
		_ = os.RemoveAll(dir)
		_ = unix.Close(fd)
	}
}

// isRecent reports whether a folder may have been created and not locked yet.
func isRecent(e fs.DirEntry) bool {
	info, err := e.Info()
	return err != nil || time.Since(info.ModTime()) < time.Minute
}
