package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.millstream.dev/internal/tools/release/modproxy"
)

// tags creates the annotated tags of a release in the repository: the version at the commit, and FOLDER/VERSION for
// each nested module that is published, at a commit after it. Only there do these modules require the version of the
// root module: in the repository a folder replaces it, which the go command ignores outside. Nothing is pushed.
func (o *options) tags(ctx context.Context, root string, log io.Writer) error {
	work, err := os.MkdirTemp("", "millstream-tags-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s, err := checkout(ctx, root, o.commit, o.version, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	modules, err := s.modules(ctx)
	if err != nil {
		return err
	}
	names := []string{s.version}
	for _, folder := range published {
		names = append(names, folder+"/"+s.version)
	}
	for _, name := range names {
		if _, err := output(ctx, root, nil, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+name); err == nil {
			return fmt.Errorf("tag %s exists; delete it with git tag -d, or choose another version", name)
		}
	}
	nested, err := s.nestedCommit(ctx, root, filepath.Join(work, "index"), modules[1:])
	if err != nil {
		return err
	}
	for i, name := range names {
		at := nested
		if i == 0 {
			at = s.commit
		}
		if _, err := output(ctx, root, nil, "git", "tag", "--annotate", "--message", name, name, at); err != nil {
			return err
		}
		fmt.Fprintf(log, "%s at %.12s\n", name, at)
	}
	fmt.Fprintf(log, "publish them: git push origin %s\n", strings.Join(names, " "))
	return nil
}

// nestedCommit returns a commit after the released one in which the nested modules have the go.mod and go.sum of the
// module proxy. No branch has it.
func (s *source) nestedCommit(ctx context.Context, root, index string, nested []*modproxy.Module) (string, error) {
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := output(ctx, root, env, "git", "read-tree", s.commit); err != nil {
		return "", err
	}
	for i, m := range nested {
		for _, f := range m.Files {
			if f.Name != "go.mod" && f.Name != "go.sum" {
				continue
			}
			file := filepath.Join(filepath.Dir(index), "object")
			if err := os.WriteFile(file, f.Data, 0o600); err != nil {
				return "", err
			}
			id, err := output(ctx, root, nil, "git", "hash-object", "-w", "--no-filters", file)
			if err != nil {
				return "", err
			}
			entry := "100644," + id + "," + published[i] + "/" + f.Name
			if _, err := output(ctx, root, env, "git", "update-index", "--cacheinfo", entry); err != nil {
				return "", err
			}
			if f.Name == "go.mod" && bytes.Contains(f.Data, []byte("\nreplace ")) {
				return "", errors.New(m.Path + " has a replacement, which a release cannot have; remove it")
			}
		}
	}
	tree, err := output(ctx, root, env, "git", "write-tree")
	if err != nil {
		return "", err
	}
	return output(ctx, root, nil, "git", "commit-tree", tree, "-p", s.commit, "-m",
		"go.mod: require "+s.version+" of the root module in nested modules")
}
