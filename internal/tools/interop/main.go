// Command interop runs the tests of tests/dask, Millstream among Dask's own processes, in every setting: each release
// of Dask over tcp, then the environment's own over tls and ucxx. It prints a table of what passed, and with -write
// puts it into docs/dask-releases.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	timeout := flag.Duration("timeout", 20*time.Minute, "of each setting")
	write := flag.Bool("write", false, "put the table into docs/dask-releases.md")
	only := flag.String("only", "", "settings to run, such as tcp-2025.7.0,tls (default: all)")
	race := flag.Bool("race", false, "build the tests with the race detector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *timeout, *write, *race, *only); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// run runs all settings; it goes on after one that failed.
func run(ctx context.Context, out io.Writer, timeout time.Duration, write, race bool, only string) error {
	list, err := os.ReadFile("tests/interop/dask-versions.txt")
	if err != nil {
		return fmt.Errorf("%w; run it in the repository's folder", err)
	}
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "dask.test")
	args := []string{"test", "-c", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, "./tests/dask")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("the tests do not build: %w", err)
	}
	var rows []row
	failed := 0
	for _, s := range settings(string(list)) {
		if only != "" && !contains(strings.Split(only, ","), s.String()) {
			continue
		}
		begin := time.Now()
		text, err := s.test(ctx, binary, timeout)
		r := s.row(text)
		rows = append(rows, r)
		fmt.Fprintf(out, "%-14s %s in %v\n", s, r.summary(), time.Since(begin).Round(time.Second))
		if err != nil || r.failed() {
			failed++
			fmt.Fprintf(out, "%s\n%v\n", text, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	table := tableOf(rows)
	fmt.Fprintf(out, "\n%s", table)
	if write {
		if err := replace("docs/dask-releases.md", table); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d settings failed", failed, len(rows))
	}
	return nil
}

// test runs the tests in a setting and returns what they print.
func (s setting) test(ctx context.Context, binary string, timeout time.Duration) (string, error) {
	args := []string{"-test.v", "-test.count=1", "-test.timeout=" + timeout.String(), "-test.skip=" + s.skip()}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = "tests/dask"
	cmd.Env = append(os.Environ(), "MILLSTREAM_DASK_PROTOCOL="+s.protocol, "MILLSTREAM_DASK_RELEASE="+s.release)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
