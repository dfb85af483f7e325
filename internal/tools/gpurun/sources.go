package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"go.millstream.dev/internal/tools/gpurecord"
	"go.millstream.dev/internal/tools/testfuncs"
	"go.millstream.dev/internal/tools/tree"
)

// bundle is the content of bundle.json.
type bundle struct {
	// Commit is the source revision, with the suffix "-dirty" if the tree had changes.
	Commit string `json:"commit"`
	// Module is the module path. Together with the folder of a test binary in tests/ it is an import path.
	Module string `json:"module"`
	// Sources are hashes of the sources of the test binaries, by import path; see gpurecord.Sources.
	Sources map[string]string `json:"sources"`
}

// findTests returns the GPU tests of the tree that contains the working directory, its root and its module path.
func findTests() (tests []testfuncs.Func, root, module string, err error) {
	if root, err = tree.Root("."); err != nil {
		return nil, "", "", err
	}
	if module, err = tree.Module(root); err != nil {
		return nil, "", "", err
	}
	tests, err = testfuncs.Find(root, testfuncs.GPU)
	return tests, root, module, err
}

// list prints the folder of each package with GPU tests, relative to the root.
func list(out io.Writer) error {
	tests, _, module, err := findTests()
	if err != nil {
		return err
	}
	for _, pkg := range testfuncs.Packages(tests) {
		fmt.Fprintln(out, path.Join(".", strings.TrimPrefix(pkg, module)))
	}
	return nil
}

// describeBundle prints bundle.json of the tree.
func describeBundle(ctx context.Context, out io.Writer, commit string) error {
	tests, root, module, err := findTests()
	if err != nil {
		return err
	}
	b := bundle{Commit: commit, Module: module}
	if b.Sources, err = gpurecord.Sources(ctx, root, testfuncs.Packages(tests)); err != nil {
		return err
	}
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// stale lists the GPU tests whose sources have changed since the run in docs/gpu-run.json, and returns an error if
// there are any.
func stale(ctx context.Context, out io.Writer) error {
	tests, root, _, err := findTests()
	if err != nil {
		return err
	}
	record, err := gpurecord.Load(filepath.Join(root, "docs", "gpu-run.json"))
	if err != nil {
		return err
	}
	hashes, err := gpurecord.Sources(ctx, root, testfuncs.Packages(tests))
	if err != nil {
		return err
	}
	old := record.Stale(tests, hashes)
	for _, line := range gpurecord.Lines(old) {
		fmt.Fprintln(out, line)
	}
	if len(old) > 0 {
		return fmt.Errorf("%d of %d GPU tests have not run with the sources of this tree; run make gpu-test-bundle,  "+
			"run the bundle on a machine with a GPU, and commit its gpu-run.json as docs/gpu-run.json", len(old),
			len(tests))
	}
	fmt.Fprintf(out, "%d GPU tests have run with the sources of this tree\n", len(tests))
	return nil
}
