package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUnsafe is returned if the folder or a file of a journal belongs to another user, is writable by others, or has the
// wrong type. The scheduler follows no link in it and reads nothing that others could have written.
var ErrUnsafe = errors.New("journal is not protected from other users")

// OwnFolder is the name of the folder that Folder creates.
const OwnFolder = "millstream-journal"

// HistoryFolder is the name of a folder in that of a journal that is not part of it: the history of the dashboard.
const HistoryFolder = "dashboard"

// Folder returns the path of the journal of a folder: the folder itself, or, in a folder that others own or may write
// to or that is the root of a file system, such as a volume of a container, the folder OwnFolder in it, which is
// created if create is set. If a folder has a journal already, the path does not change.
func Folder(dir string, create bool) (string, error) {
	err := checkFolder(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return dir, nil // Open creates it
	case err != nil && !errors.Is(err, ErrUnsafe):
		return dir, err
	case err == nil && !hasEntry(dir, "lost+found"):
		return dir, nil
	}
	if has, lerr := hasJournal(dir); lerr != nil || has {
		return dir, errors.Join(err, lerr)
	}
	own := filepath.Join(dir, OwnFolder)
	if create {
		if merr := os.Mkdir(own, 0o700); merr != nil && !errors.Is(merr, os.ErrExist) {
			return dir, errors.Join(err, merr)
		}
	}
	info, serr := os.Lstat(own)
	if serr != nil {
		return dir, errors.Join(err, serr)
	}
	if !info.IsDir() {
		return dir, fmt.Errorf("%w: %s is not a folder", ErrUnsafe, own)
	}
	return own, nil
}

func hasEntry(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// hasJournal reports whether a folder has files of a journal.
func hasJournal(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		_, log := number(e.Name(), logPrefix)
		_, snapshot := number(e.Name(), snapshotPrefix)
		if log || snapshot {
			return true, nil
		}
	}
	return false, err
}

// checkFolder returns an error for a folder that others own or may write to.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrUnsafe, dir)
	}
	return checkOwner(dir, info)
}

// checkOwner returns an error for a file that belongs to another user, or is writable by others.
func checkOwner(name string, info os.FileInfo) error {
	uid := uint32(os.Geteuid())
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != uid {
		return fmt.Errorf("%w: %s belongs to user %d, this process runs as %d; use a folder of this user",
			ErrUnsafe, name, st.Uid, uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%w: %s has mode %04o and is writable by others; chmod go-w, or use a folder inside it",
			ErrUnsafe, name, mode)
	}
	return nil
}

// openFile opens a file of the folder without following a link, and checks that it is a regular file of this user. A
// pipe or a device is rejected without waiting for its other end.
func openFile(dir, name string, flags int) (*os.File, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symbolic link", ErrUnsafe, path)
	}
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%w: %s is not a plain file", ErrUnsafe, path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a plain file", ErrUnsafe, path)
	}
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createFile creates a file and replaces one that an interrupted run has left.
func createFile(dir, name string) (*os.File, error) {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return openFile(dir, name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}
