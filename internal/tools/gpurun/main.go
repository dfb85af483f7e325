// Gpurun runs the bundle of GPU tests. On the machine that builds the bundle, `gpurun list` lists the packages with GPU
// tests, and `gpurun describe COMMIT` prints bundle.json with hashes of their sources. On the machine with the GPU,
// which needs no Go, `gpurun run` runs the test binaries and writes the record for docs/gpu-run.json. `gpurun stale`
// lists the tests whose sources have changed since, and fails if there are any.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.millstream.dev/internal/tools/gpurecord"
	"go.millstream.dev/internal/tools/testfuncs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "list":
		err = list(os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "describe":
		err = describeBundle(ctx, os.Stdout, os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "stale":
		err = stale(ctx, os.Stdout)
	case len(os.Args) >= 2 && os.Args[1] == "run":
		err = run(ctx, os.Args[2:])
	default:
		err = fmt.Errorf("usage: gpurun list | gpurun describe COMMIT | gpurun stale | gpurun run [-dir FOLDER] " +
			"[-out FILE] [-run PATTERN] [-timeout DURATION]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpurun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	dir := flags.String("dir", ".", "folder of the unpacked bundle")
	out := flags.String("out", "gpu-run.json", "file for the record")
	pattern := flags.String("run", "^"+testfuncs.GPU, "pattern of tests to run; the record is complete only with "+
		"the default")
	timeout := flags.Duration("timeout", 8*time.Minute, "time limit of each package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(*dir, "bundle.json"))
	if err != nil {
		return fmt.Errorf("%w; set -dir to the folder of the unpacked bundle", err)
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("bundle.json: %w", err)
	}
	record := &gpurecord.Record{Commit: b.Commit, Date: time.Now().UTC().Format(time.DateOnly), Sources: b.Sources,
		Tests: []gpurecord.Test{}}
	if err := describe(ctx, record); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, driver %s, CUDA %s, UCX %s\n", record.Device, record.Driver, record.CUDA, record.UCX)
	binaries, err := findBinaries(filepath.Join(*dir, "tests"))
	if err != nil {
		return err
	}
	var bad []string
	for _, binary := range binaries {
		res, err := runBinary(ctx, binary.file, *pattern, *timeout, os.Stderr)
		pkg := path.Join(b.Module, binary.pkg)
		for _, t := range res.passed {
			t.Package = pkg
			record.Tests = append(record.Tests, t)
		}
		for _, name := range res.failed {
			bad = append(bad, pkg+" "+name+" failed")
		}
		for _, name := range res.skipped {
			bad = append(bad, pkg+" "+name+" was skipped on a machine with a GPU")
		}
		if err != nil && len(res.failed) == 0 {
			bad = append(bad, fmt.Sprintf("%s: %v", pkg, err))
		}
	}
	if err := record.Save(*out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d GPU tests passed; record in %s\n", len(record.Tests), *out)
	if len(bad) > 0 {
		return fmt.Errorf("%d problems:\n  %s", len(bad), strings.Join(bad, "\n  "))
	}
	if len(record.Tests) == 0 {
		return fmt.Errorf("no test ran")
	}
	return nil
}
