// Package files finds and writes the files of frames: listing of folders and patterns, change detection, atomic
// creation of a file, and sets of files that appear as one, with a manifest.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/frame/internal/fault"
)

// Workers read and write files, so paths are those of the workers' machines: all workers must see the same files under
// the same paths, on a shared file system or on one machine.

// List returns the files of a path: the file itself, those of a folder with one of the extensions, or those that match
// a pattern, sorted by name. In a folder with a result of WriteIPC or WriteCSV they are the files of its manifest.
func List(path string, ext []string) ([]string, error) {
	if path == "" {
		return nil, errors.New("frame: no path")
	}
	info, err := statPart(path)
	switch {
	case err == nil && !info.IsDir():
		return []string{path}, nil
	case err == nil:
		return listFolder(path, ext)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		return listPattern(path, ext)
	}
	return nil, fmt.Errorf("frame: %w", err)
}

// listFolder returns the files of a folder: those of its manifest, or without one all that have one of the extensions
// and are not hidden.
func listFolder(dir string, ext []string) ([]string, error) {
	names, err := listNames(dir, ext)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if slices.ContainsFunc(ext, func(x string) bool { return strings.HasSuffix(name, x) }) {
			out = append(out, filepath.Join(dir, name))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("frame: folder %s has no file with extension %s", dir, strings.Join(ext, " or "))
	}
	return out, nil
}

// listPattern returns the files that match a pattern. In folders with a manifest they are those of the manifest, and
// files that were not written by this package.
func listPattern(pattern string, ext []string) ([]string, error) {
	bad := func(err error) error { return fmt.Errorf("frame: pattern %s: %w", pattern, err) }
	dirs, err := filepath.Glob(filepath.Dir(pattern))
	if err != nil {
		return nil, bad(err)
	}
	var out []string
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		names, err := listNames(dir, ext)
		if err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("frame: %w", err)
		}
		for _, e := range entries { // a pattern may match any name
			if name := e.Name(); !e.IsDir() && !IsPart(name) && !isManifest(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			match, err := filepath.Match(filepath.Base(pattern), name)
			if err != nil {
				return nil, bad(err)
			}
			if match {
				out = append(out, filepath.Join(dir, name))
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("frame: no file matches %s", pattern)
	}
	return out, nil
}

// listNames returns the names of the files of a folder: those of its manifests for the extensions, or without one all
// that are not hidden. It never returns a part of a set that is being written.
func listNames(dir string, ext []string) ([]string, error) {
	const most = 100 // number of sets that replace each other meanwhile
	for try := 1; ; try++ {
		names, found, err := manifestNames(dir, ext)
		if found || err != nil {
			if err != nil && errors.Is(err, errReplaced) && try < most {
				continue
			}
			return names, err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("frame: %w", err)
		}
		// A set may have been finished while the folder was read, which then shows some of its files.
		if _, found, err := manifestNames(dir, ext); (found || err != nil) && try < most {
			continue
		}
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") {
				names = append(names, name)
			}
		}
		return names, nil
	}
}

// Stamp identifies the content of a file: it is part of the key of the task that reads the file, so that a modified
// file is read again.
type Stamp struct {
	Size    int64
	ModTime int64 // nanoseconds since 1970
}

// StampOf returns the stamp of a file.
func StampOf(info fs.FileInfo) Stamp {
	return Stamp{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
}

// OpenStamped opens a file, whose content must be that of the stamp.
func OpenStamped(path string, want Stamp, partition int) (*os.File, error) {
	f, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, Path: path, Partition: partition,
			Reason: "removed or replaced since the frame was made; make the frame again", Err: err}
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, Path: path, Partition: partition,
			Reason: "cannot be opened", Err: err}
	}
	info, err := f.Stat()
	if err == nil && StampOf(info) != want {
		err = errors.New("changed since the frame was made; make the frame again")
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, &fault.Error{Kind: fault.ErrCorrupt, Path: path, Partition: partition, Err: err}
	}
	return f, nil
}

// Written is a file that a worker has written.
type Written struct {
	Path  string
	Rows  int64
	Bytes int64
}

// Create writes a file under another name and renames it when it is complete and on disk, so that no reader sees a part
// of it.
func Create(path string, write func(f *os.File) error) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return 0, createError(path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = write(f); err != nil {
		return 0, fmt.Errorf("frame: %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	if err = f.Chmod(0o644); err != nil {
		return 0, fmt.Errorf("frame: %w", err)
	}
	if err = f.Sync(); err != nil {
		return 0, fmt.Errorf("frame: %s: %w", path, err)
	}
	if err = f.Close(); err != nil {
		return 0, fmt.Errorf("frame: %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return 0, createError(path, err)
	}
	return info.Size(), nil
}

// createError explains the error of a file whose staging folder was removed.
func createError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && stagingPattern.MatchString(filepath.Base(filepath.Dir(path))) {
		return fmt.Errorf("frame: another write into the folder ended first, or this one was aborted: %w", err)
	}
	return fmt.Errorf("frame: %w", err)
}

// Span is a range of bytes of a file.
type Span struct {
	From, To int64
}

// Endings returns the extensions of the files that have the same format as files with the extension ext.
func Endings(ext string) []string {
	switch ext {
	case ".arrow":
		return []string{".arrow", ".feather", ".ipc", ".arrows"}
	case ".parquet":
		return []string{".parquet", ".parq", ".pq"}
	case ".ndjson":
		return []string{".ndjson", ".jsonl"}
	}
	return []string{ext}
}
