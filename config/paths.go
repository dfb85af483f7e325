package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environ is a process environment in its order. The first of two equal names counts, as in Python and C.
type environ struct {
	names  []string
	values map[string]string
}

func newEnviron(env []string) environ {
	e := environ{values: map[string]string{}}
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if _, seen := e.values[name]; !seen {
			e.names = append(e.names, name)
			e.values[name] = value
		}
	}
	return e
}

func (e environ) get(name, otherwise string) string {
	if v, ok := e.values[name]; ok {
		return v
	}
	return otherwise
}

// SearchPaths returns the files and directories that are read for an environment (nil: that of the process), in
// increasing precedence. They are those of Dask, each followed by that of Millstream:
//
//	$DASK_ROOT_CONFIG or /etc/dask, $MILLSTREAM_ROOT_CONFIG or /etc/millstream
//	etc/dask in the Python environment that $VIRTUAL_ENV or $CONDA_PREFIX names, else in /usr
//	~/.config/dask, ~/.config/millstream
//	$DASK_CONFIG, $MILLSTREAM_CONFIG
func SearchPaths(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	e := newEnviron(env)
	home := e.get("HOME", "")
	if home == "" {
		home, _ = os.UserHomeDir() // without a home the path below does not exist
	}
	prefix := e.get("VIRTUAL_ENV", "")
	if prefix == "" {
		prefix = e.get("CONDA_PREFIX", "")
	}
	if prefix == "" {
		prefix = "/usr"
	}
	paths := []string{
		e.get("DASK_ROOT_CONFIG", "/etc/dask"),
		e.get("MILLSTREAM_ROOT_CONFIG", "/etc/millstream"),
		filepath.Join(prefix, "etc", "dask"),
		filepath.Join(home, ".config", "dask"),
		filepath.Join(home, ".config", "millstream"),
	}
	for _, name := range []string{"DASK_CONFIG", "MILLSTREAM_CONFIG"} {
		if p, ok := e.values[name]; ok {
			paths = append(paths, p)
		}
	}
	// Of equal paths the one of highest precedence counts.
	var unique []string
	for i, p := range paths {
		if !slices.Contains(paths[i+1:], p) {
			unique = append(unique, p)
		}
	}
	return unique
}

// missingPaths warns about variables that name a file or directory that does not exist. Dask ignores them silently.
func missingPaths(e environ) []Warning {
	var warnings []Warning
	for _, name := range []string{"DASK_ROOT_CONFIG", "MILLSTREAM_ROOT_CONFIG", "DASK_CONFIG", "MILLSTREAM_CONFIG"} {
		path, ok := e.values[name]
		if !ok || path == "" {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			warnings = append(warnings, Warning{Source: Source{Kind: KindEnv, Name: name}, Text: path +
				" does not exist; nothing is read from there"})
		}
	}
	return warnings
}

// configFiles returns the files of the paths, in increasing precedence.
func configFiles(paths []string) []string {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if p == "" || err != nil {
			continue
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, _ := os.ReadDir(p) // unreadable directories are skipped, as in Dask
		var found []string
		for _, e := range entries {
			switch strings.ToLower(extension(e.Name())) {
			case ".json", ".yaml", ".yml":
				found = append(found, filepath.Join(p, e.Name()))
			}
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files
}

// extension follows Python: leading dots start a hidden file, not an extension.
func extension(name string) string {
	return filepath.Ext(strings.TrimLeft(name, "."))
}

// readFile reads a file up to the maximum size of a configuration. A file that cannot be opened is skipped with a
// warning: a shared directory may contain files of other users.
func readFile(path string) (text []byte, warning *Warning, err error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		src := Source{Kind: KindFile, Name: path}
		return nil, &Warning{Source: src, Text: fmt.Sprintf("the file cannot be read and is skipped: %v", err)}, nil
	}
	if len(text) > maxFile {
		return nil, nil, &FileError{path, 0, fmt.Errorf("configuration exceeds %d bytes", maxFile)}
	}
	return text, nil, nil
}
