// Command interop runs the tests of tests/dask, which run Millstream together with processes of Dask, in every setting:
// each release of Dask over tcp, then the installed one over tls and ucxx. It prints a table of the results, and with
// -write updates docs/dask-releases.md.
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
	"slices"
	"strings"
	"time"
)

func main() {
	timeout := flag.Duration("timeout", 20*time.Minute, "time limit of each setting")
	write := flag.Bool("write", false, "update of the table in docs/dask-releases.md")
	only := flag.String("only", "", "settings to run, such as tcp-2025.7.0,tls (default: all)")
	race := flag.Bool("race", false, "tests with the race detector")
	logs := flag.String("logs", "", "folder for the output of each setting")
	again := flag.Bool("again", false, "results from -logs, and runs only of missing settings")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := options{timeout: *timeout, write: *write, race: *race, only: *only, logs: *logs, again: *again}
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	timeout            time.Duration
	write, race, again bool
	only, logs         string
}

// run runs all settings and continues after failures.
func (o options) run(ctx context.Context, out io.Writer) error {
	list, err := os.ReadFile("tests/interop/dask-versions.txt")
	if err != nil {
		return fmt.Errorf("%w; run the command in the root of the repository", err)
	}
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := ""
	var rows []row
	failed := 0
	for _, s := range settings(string(list)) {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), s.String()) {
			continue
		}
		begin := time.Now()
		text, ok := o.loadLog(s)
		var err error
		if !ok {
			if binary == "" {
				if binary, err = o.build(ctx, dir); err != nil {
					return err
				}
			}
			text, err = s.test(ctx, binary, o.timeout)
			if err := o.saveLog(s, text); err != nil {
				return err
			}
		}
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
	if o.write {
		if err := replace("docs/dask-releases.md", table); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d settings failed", failed, len(rows))
	}
	return nil
}

// build builds the test binary in a folder.
func (o options) build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "dask.test")
	args := []string{"test", "-c", "-o", binary}
	if o.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./tests/dask")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build tests: %w", err)
	}
	return binary, nil
}

// loadLog returns the output of a setting in an earlier run, if -again is set.
func (o options) loadLog(s setting) (text string, ok bool) {
	if !o.again || o.logs == "" {
		return "", false
	}
	b, err := os.ReadFile(filepath.Join(o.logs, s.String()+".log"))
	return string(b), err == nil
}

func (o options) saveLog(s setting, text string) error {
	if o.logs == "" {
		return nil
	}
	if err := os.MkdirAll(o.logs, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.logs, s.String()+".log"), []byte(text), 0o666)
}

// test runs the tests in a setting and returns their output.
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
