package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/frame/internal/fault"
)

// Set identifies one write of a set of files, see manifest.go.
type Set struct {
	Dir, Ext, ID string
	Overwrite    bool
}

// Staging returns the folder into which the parts are written.
func (s Set) Staging() string { return stagingPath(s.Dir, s.Ext, s.ID) }

// Preparation is the result of the start of a write.
type Preparation struct {
	Created []string // folders, outermost first
}

// Prepare creates the folder and the staging folder in it. It returns ErrExists for a folder that has files of the
// format, unless they are to be overwritten.
func (s Set) Prepare(ctx context.Context) (p Preparation, err error) {
	if p.Created, err = makeFolders(s.Dir); err != nil {
		return p, fmt.Errorf("frame: %w", err)
	}
	defer func() {
		if err != nil {
			removeEmpty(p.Created)
		}
	}()
	unlock, err := lockFolder(ctx, s.Dir)
	if err != nil {
		return p, err
	}
	defer unlock()
	m, err := ReadManifest(s.Dir, s.Ext)
	if err != nil {
		return p, err
	}
	if m != nil && m.ID != s.ID {
		if err := s.finish(m); err != nil { // a write that ended meanwhile
			return p, err
		}
	}
	if err := s.checkExisting(m); err != nil {
		return p, err
	}
	if err := os.Mkdir(s.Staging(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return p, fmt.Errorf("frame: %w", err)
	}
	return p, nil
}

// makeFolders is os.MkdirAll that returns the created folders.
func makeFolders(dir string) (made []string, err error) {
	var missing []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			break // MkdirAll returns the better error
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	slices.Reverse(missing)
	return missing, nil
}

// checkExisting returns ErrExists if the folder has files of the format and they are not to be overwritten.
func (s Set) checkExisting(m *Manifest) error {
	if s.Overwrite || m != nil && m.ID == s.ID {
		return nil
	}
	const do = "write into another folder, or set WriteOptions.Overwrite"
	if m != nil {
		return &fault.Error{Kind: fault.ErrExists, Path: s.Dir, Partition: -1,
			Reason: fmt.Sprintf("folder has a result (%d partitions); %s", len(m.Files), do)}
	}
	ext := Endings(s.Ext)
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") &&
			slices.Contains(ext, filepath.Ext(name)) {
			return &fault.Error{Kind: fault.ErrExists, Path: s.Dir, Partition: -1,
				Reason: fmt.Sprintf("folder has %s; %s", name, do)}
		}
	}
	return nil
}

// Commit makes the written files the result of the folder and returns their paths.
func (s Set) Commit(ctx context.Context, files []Written) ([]string, error) {
	unlock, err := lockFolder(ctx, s.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := ReadManifest(s.Dir, s.Ext)
	if err != nil {
		return nil, err
	}
	m := now
	if now == nil || now.ID != s.ID {
		if err := s.checkExisting(now); err != nil {
			return nil, err
		}
		if m, err = s.Publish(now, files); err != nil {
			return nil, err
		}
	}
	if err := s.finish(m); err != nil {
		return nil, err
	}
	if err := s.clean(); err != nil {
		return nil, err
	}
	paths := make([]string, len(m.Files))
	for i, name := range m.names() {
		paths[i] = filepath.Join(s.Dir, name)
	}
	return paths, nil
}

// Publish replaces the current manifest by that of the set. From then on readers see the set.
func (s Set) Publish(now *Manifest, files []Written) (*Manifest, error) {
	m := &Manifest{Version: manifestVersion, ID: s.ID, Files: make([]File, len(files))}
	for i, f := range files {
		name := PartName(i, s.ID, s.Ext)
		info, err := os.Stat(filepath.Join(s.Staging(), name))
		if err == nil && info.Size() != f.Bytes {
			err = fmt.Errorf("%s has %d bytes, want %d", name, info.Size(), f.Bytes)
		}
		if err != nil {
			return nil, s.writeError(err)
		}
		m.Files[i] = File{Name: name, Rows: f.Rows, Bytes: f.Bytes}
	}
	if now != nil {
		m.Replaces = append(now.names(), now.Replaces...)
	} else {
		entries, err := os.ReadDir(s.Dir)
		if err != nil {
			return nil, fmt.Errorf("frame: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && oldPartPattern.MatchString(name) && filepath.Ext(name) == s.Ext {
				m.Replaces = append(m.Replaces, name)
			}
		}
	}
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	temp := filepath.Join(s.Staging(), "manifest")
	if _, err := Create(temp, func(f *os.File) error { _, err := f.Write(append(b, '\n')); return err }); err != nil {
		return nil, s.writeError(err)
	}
	path := ManifestPath(s.Dir, s.Ext)
	if !s.Overwrite {
		// One of two concurrent writes must fail: a link, unlike a rename, replaces nothing.
		switch err := os.Link(temp, path); {
		case err == nil:
			return m, syncFolder(s.Dir)
		case errors.Is(err, fs.ErrExist):
			return nil, &fault.Error{Kind: fault.ErrExists, Path: s.Dir, Partition: -1,
				Reason: "another write into the folder ended first"}
		}
		// The file system does not support links.
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, s.writeError(err)
	}
	return m, syncFolder(s.Dir)
}

// writeError explains the error of a write whose staging folder was removed.
func (s Set) writeError(err error) error {
	if _, e := os.Stat(s.Staging()); errors.Is(e, fs.ErrNotExist) {
		return fmt.Errorf("frame: write into %s: another write into the folder ended first: %w", s.Dir, err)
	}
	return fmt.Errorf("frame: write into %s: %w", s.Dir, err)
}

// finish removes the files that a set has replaced and moves its parts to their final paths. The set may be that of
// another write.
func (s Set) finish(m *Manifest) error {
	for _, name := range m.Replaces {
		if err := os.Remove(filepath.Join(s.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("frame: %w", err)
		}
		if staged, ok := stagedPath(filepath.Join(s.Dir, name)); ok {
			if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("frame: %w", err)
			}
		}
	}
	staging := stagingPath(s.Dir, s.Ext, m.ID)
	for _, name := range m.names() {
		if err := os.Rename(filepath.Join(staging, name), filepath.Join(s.Dir, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("frame: %w", err)
		}
	}
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	return syncFolder(s.Dir)
}

// clean removes the staging folders of writes that never ended.
func (s Set) clean() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	for _, e := range entries {
		m := stagingPattern.FindStringSubmatch(e.Name())
		if m == nil || m[1] != s.Ext || m[2] == s.ID || !e.IsDir() {
			continue
		}
		if _, err := (Set{Dir: s.Dir, Ext: s.Ext, ID: m[2]}).discard(); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the staging folder of a write unless the write is the result of the folder. It reports whether it is.
func (s Set) discard() (committed bool, err error) {
	// Under another name nothing can be added to the folder, and the write cannot publish its content.
	away := s.Staging() + Discarded
	if err := os.Rename(s.Staging(), away); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("frame: %w", err)
	}
	m, err := ReadManifest(s.Dir, s.Ext)
	if err != nil {
		return false, err
	}
	if m != nil && m.ID == s.ID {
		if err := os.Rename(away, s.Staging()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, fmt.Errorf("frame: %w", err)
		}
		return true, s.finish(m)
	}
	if err := os.RemoveAll(away); err != nil {
		return false, fmt.Errorf("frame: %w", err)
	}
	return false, nil
}

// Abort removes the files of a write. It reports true if the write had been complete before.
func (s Set) Abort(p Preparation) (bool, error) {
	if committed, err := s.discard(); committed || err != nil {
		return committed, err
	}
	removeEmpty(p.Created)
	return false, nil
}

// removeEmpty removes folders, the last first, as long as they are empty.
func removeEmpty(dirs []string) {
	for _, dir := range slices.Backward(dirs) {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// lockFolder locks a folder against other writes that end at the same time. The lock ends with the process. File
// systems that cannot lock a folder have no lock: two writes that end at once may then leave files that are not read.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return func() { _ = f.Close() }, nil // possibly without a lock
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("frame: lock %s: %w", dir, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// syncFolder makes renames in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	defer f.Close()
	_ = f.Sync() // not supported by some file systems
	return nil
}
