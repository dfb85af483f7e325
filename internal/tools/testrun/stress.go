package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A failed test is run stressRuns more times, in stressCopies concurrent processes.
const (
	stressRuns   = 10
	stressCopies = 4
)

// stress runs a test again under load: several copies of the test binary run concurrently, with all processors but one
// busy. It returns the errors of copies that failed and prints their output.
func stress(ctx context.Context, out io.Writer, o options, f *failure) error {
	tmp, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	binary := filepath.Join(tmp, "again.test")
	args := []string{"test", "-c", "-o", binary, noDebugInfo}
	if o.race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, f.Package)...)
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, text)
	}
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", f.Package).Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", f.Package, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var spinning, copies sync.WaitGroup
	for range max(1, runtime.NumCPU()-1) {
		spinning.Go(func() { spin(ctx) })
	}
	errs := make([]error, stressCopies)
	for i := range errs {
		runs := stressRuns / stressCopies
		if i < stressRuns%stressCopies {
			runs++
		}
		copies.Go(func() { errs[i] = runCopy(ctx, out, o, f, binary, strings.TrimSpace(string(dir)), runs) })
	}
	copies.Wait()
	cancel()
	spinning.Wait()
	return errors.Join(errs...)
}

// spin keeps a processor busy until the context ends.
func spin(ctx context.Context) {
	for x := uint32(1); ctx.Err() == nil; {
		for range 1 << 16 {
			x = x*1664525 + 1013904223
		}
	}
}

// runCopy runs a test several times, in the folder of its package as go test does. Each run must pass; a skipped run is
// a failure.
func runCopy(ctx context.Context, out io.Writer, o options, f *failure, binary, dir string, runs int) error {
	cmd := exec.CommandContext(ctx, binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout="+
		o.timeout.String(),
		"-test.run=^"+regexp.QuoteMeta(f.Test)+"$", fmt.Sprintf("-test.count=%d", runs))
	cmd.Dir = dir
	cmd.Env = append(environment(), "PWD="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	passed := bytes.Count(text.Bytes(), []byte("\x16--- PASS: "+f.Test+" ("))
	if err == nil && passed == runs {
		return nil
	}
	fmt.Fprintf(out, "--- FAIL: %s (run again)\n%s\n", f, strings.ReplaceAll(text.String(), "\x16", ""))
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%d of %d runs of a copy passed: %w", passed, runs, err)
}
