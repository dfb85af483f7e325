package main

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/modproxy"
	"go.millstream.dev/internal/tools/tree"
)

// published are the folders of the nested modules that are part of a release. The others are tools of the repository.
var published = []string{"bench", "otel"}

// modules returns the modules of the checkout, the root first.
func (s *source) modules(ctx context.Context) ([]*modproxy.Module, error) {
	name, err := tree.Module(s.dir)
	if err != nil {
		return nil, err
	}
	all, err := s.tracked(ctx)
	if err != nil {
		return nil, err
	}
	root := &modproxy.Module{Path: name, Version: s.version, Commit: s.commit, Time: s.time,
		Files: modproxy.Select(all, "")}
	list := []*modproxy.Module{root}
	for _, folder := range published {
		m := *root
		m.Path, m.Files = path.Join(name, folder), modproxy.Require(modproxy.Select(all, folder), root)
		if len(m.Files) == 0 {
			return nil, fmt.Errorf("no module in %s; change the list of published modules", folder)
		}
		list = append(list, &m)
	}
	return list, nil
}

// tracked returns the regular files of the commit.
func (s *source) tracked(ctx context.Context) ([]archive.File, error) {
	out, err := output(ctx, s.dir, nil, "git", "ls-tree", "-r", "-z", s.commit)
	if err != nil {
		return nil, err
	}
	var files []archive.File
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		kind, name, _ := strings.Cut(line, "\t")
		if !strings.HasPrefix(kind, "100") {
			continue // a link or a submodule
		}
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("git lists the invalid name %q; rename the file", name)
		}
		f, err := s.file(name, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// proxy returns the files of the module proxy, in the folder go.
func (s *source) proxy(ctx context.Context) ([]archive.File, error) {
	modules, err := s.modules(ctx)
	if err != nil {
		return nil, err
	}
	var all []archive.File
	for _, m := range modules {
		files, err := m.Write()
		if err != nil {
			return nil, err
		}
		all = append(all, archive.Under("go", files)...)
	}
	return all, nil
}
