package memory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// scratchDirectory creates the directory of this user below base for the data that workers spill. Base is usually the
// directory for temporary files, which all users can write: scratchDirectory rejects links, and directories that
// another user owns or may write.
func scratchDirectory(base string) (string, error) {
	if base == "" {
		base = os.TempDir()
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", fmt.Errorf("worker: folder for spilled data: %w; choose another with --local-directory", err)
	}
	dir := filepath.Join(base, "dask-scratch-space-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("worker: folder for spilled data: %w; choose another with --local-directory", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("worker: folder for spilled data: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		err = errors.New("not a folder")
	case ok && int(st.Uid) != os.Getuid():
		err = fmt.Errorf("owned by user %d, not by user %d of this process", st.Uid, os.Getuid())
	case info.Mode().Perm()&0o022 != 0:
		err = fmt.Errorf("mode %#o lets other users write to it", info.Mode().Perm())
	}
	if err != nil {
		return "", fmt.Errorf("worker: folder for spilled data %s: %w; remove it, or choose another with "+
			"--local-directory", dir, err)
	}
	return dir, nil
}
