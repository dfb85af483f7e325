package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

// source is a clean checkout of the commit that is released.
type source struct {
	dir     string
	commit  string
	version string    // with a leading "v"
	time    time.Time // of the commit, the time stamp of every file
}

var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// checkout clones a commit of a repository into dir and tags it there, so that the go command records commit and
// version in the programs. Changes of the work tree that are not committed are not part of a release.
func checkout(ctx context.Context, repo, commit, version, dir string) (*source, error) {
	if !semver.MatchString(version) {
		return nil, fmt.Errorf("version %q is not of the form v1.2.3; set VERSION", version)
	}
	if commit == "" {
		commit = "HEAD"
	}
	s := &source{dir: dir, version: version}
	var err error
	if s.commit, err = output(ctx, repo, nil, "git", "rev-parse", "--verify", commit+"^{commit}"); err != nil {
		return nil, fmt.Errorf("%w; run it in a clone of the repository", err)
	}
	for _, args := range [][]string{{"clone", "--quiet", "--shared", "--no-checkout", repo, dir},
		{"-C", dir, "checkout", "--quiet", "--detach", s.commit}} {
		if _, err := output(ctx, repo, nil, "git", args...); err != nil {
			return nil, err
		}
	}
	if err := s.tag(ctx); err != nil {
		return nil, err
	}
	stamp, err := output(ctx, dir, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	s.time = time.Unix(seconds, 0).UTC()
	return s, err
}

// tag tags the checkout. A tag of this name at another commit is an error.
func (s *source) tag(ctx context.Context) error {
	at, err := output(ctx, s.dir, nil, "git", "rev-parse", "--quiet", "--verify", s.version+"^{commit}")
	if err == nil && at != s.commit {
		return fmt.Errorf("tag %s is at %.12s, not at %.12s; release the commit of the tag or choose another version",
			s.version, at, s.commit)
	}
	if err == nil {
		return nil
	}
	_, err = output(ctx, s.dir, nil, "git", "tag", s.version, s.commit)
	return err
}

// read returns a file of the checkout.
func (s *source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// file returns a file of the checkout for an archive, under another name and readable by all.
func (s *source) file(from, to string) (archive.File, error) {
	data, err := s.read(from)
	return archive.File{Name: to, Mode: 0o644, Data: data}, err
}

// number returns the version without the "v".
func (s *source) number() string { return strings.TrimPrefix(s.version, "v") }

var (
	projectVersion = regexp.MustCompile(`(?m)^version = "(.*)"$`)
	packageVersion = regexp.MustCompile(`(?m)^__version__ = "(.*)"$`)
)

// pythonVersion returns the version in the Python package of a tree, which is that of the next release.
func pythonVersion(tree fs.FS) (string, error) {
	var found string
	for name, re := range map[string]*regexp.Regexp{"python/pyproject.toml": projectVersion,
		"internal/dask/python/millstream/__init__.py": packageVersion} {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return "", err
		}
		m := re.FindSubmatch(text)
		if m == nil {
			return "", fmt.Errorf("%s has no version; add one", name)
		}
		if v := string(m[1]); found != "" && found != v {
			return "", fmt.Errorf("%s has version %s, the other file of the Python package %s; make them equal",
				name, v, found)
		}
		found = string(m[1])
	}
	return found, nil
}

// output runs a program in a folder and returns what it printed, without the last line break. env is added to the
// environment of this process.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}
