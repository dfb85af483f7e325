// Package tree reads the source tree: its root, the name of the module, and its files. The programs in internal/tools
// use it.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Root returns the nearest folder at or above dir that contains a go.mod.
func Root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for d := abs; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod at or above %s; run the command inside the source tree", abs)
		}
	}
}

// Module returns the module path in go.mod of root.
func Module(root string) (string, error) {
	name := filepath.Join(root, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`), nil
		}
	}
	return "", fmt.Errorf("%s has no module line", name)
}

// Files returns the files of the tree, slash-separated and relative to root, sorted. In a git work tree these are the
// tracked files and those that are not ignored; elsewhere (an unpacked archive) all except hidden folders and build
// output.
func Files(root string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
		return gitFiles(root)
	}
	return walkFiles(root)
}

func gitFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return walkFiles(root)
	}
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w: %s", root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name == "" {
			continue
		}
		// A tracked file may be deleted in the work tree, or be a link.
		if info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name))); err != nil ||
			!info.Mode().IsRegular() {
			continue
		}
		files = append(files, name)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func walkFiles(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".ci"
			if hidden || rel == "bin" || rel == "dist" || d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			files = append(files, rel)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// Workspace returns the folders of the nested modules in go.work of root, slash-separated and relative to root. Each
// has the module path that its folder would have in the root module.
func Workspace(root string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.work"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var folders []string
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		for _, field := range strings.Fields(line) {
			if dir, ok := strings.CutPrefix(strings.Trim(field, `"`), "./"); ok {
				folders = append(folders, strings.TrimSuffix(dir, "/"))
			}
		}
	}
	return folders, nil
}

// GoFiles returns the files that the go command would use for packages of the root module: no testdata, no names that
// begin with "_" or ".", no nested modules except the given ones.
func GoFiles(files []string, modules ...string) []string {
	var nested []string
	for _, f := range files {
		if dir, ok := strings.CutSuffix(f, "/go.mod"); ok && !slices.Contains(modules, dir) {
			nested = append(nested, dir+"/")
		}
	}
	var out []string
	for _, f := range files {
		if !strings.HasSuffix(f, ".go") || ignored(f) {
			continue
		}
		if slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(f, dir) }) {
			continue
		}
		out = append(out, f)
	}
	return out
}

func ignored(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "testdata" || part == "vendor" || strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}
