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
	logs := flag.String("logs", "", "folder that keeps what each setting printed")
	again := flag.Bool("again", false, "make the table of what -logs has, and run only what is missing there")
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

// run runs all settings; it goes on after one that failed.
func (o options) run(ctx context.Context, out io.Writer) error {
	list, err := os.ReadFile("tests/interop/dask-versions.txt")
	if err != nil {
		return fmt.Errorf("%w; run it in the repository's folder", err)
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
		if o.only != "" && !contains(strings.Split(o.only, ","), s.String()) {
			continue
		}
		begin := time.Now()
		text, kept := o.kept(s)
		var err error
		if !kept {
			if binary == "" {
				if binary, err = o.build(ctx, dir); err != nil {
					return err
				}
			}
			text, err = s.test(ctx, binary, o.timeout)
			if err := o.keep(s, text); err != nil {
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

// build builds the tests into a folder.
func (o options) build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "dask.test")
	args := []string{"test", "-c", "-o", binary}
	if o.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./tests/dask")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the tests do not build: %w", err)
	}
	return binary, nil
}

// kept is what a setting has printed in a run before, if that is wanted.
func (o options) kept(s setting) (text string, ok bool) {
	if !o.again || o.logs == "" {
		return "", false
	}
	b, err := os.ReadFile(filepath.Join(o.logs, s.String()+".log"))
	return string(b), err == nil
}

func (o options) keep(s setting, text string) error {
	if o.logs == "" {
		return nil
	}
	if err := os.MkdirAll(o.logs, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.logs, s.String()+".log"), []byte(text), 0o666)
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
