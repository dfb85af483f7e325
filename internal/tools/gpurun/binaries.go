package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/internal/tools/gpurecord"
)

type binary struct {
	file string // absolute, because it runs in its own folder
	pkg  string // folder of the package in the source tree
}

// findBinaries returns tests/PACKAGE/NAME.test.
func findBinaries(dir string) ([]binary, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var found []binary
	err = filepath.WalkDir(abs, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() && strings.HasSuffix(p, ".test") {
			rel, err := filepath.Rel(abs, filepath.Dir(p))
			if err != nil {
				return err
			}
			found = append(found, binary{file: p, pkg: filepath.ToSlash(rel)})
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no *.test under %s; the bundle is empty", abs)
	}
	return found, err
}

type outcome struct {
	passed          []gpurecord.Test
	failed, skipped []string
}

// runBinary runs one test binary, copies its -test.v output to log, and returns the results.
func runBinary(ctx context.Context, file, pattern string, timeout time.Duration, log io.Writer) (outcome, error) {
	cmd := exec.CommandContext(ctx, file, "-test.v", "-test.count=1", "-test.run="+pattern, "-test.timeout="+
		timeout.String())
	cmd.Dir = filepath.Dir(file)
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	cmd.WaitDelay = 10 * time.Second
	read, write, err := os.Pipe()
	if err != nil {
		return outcome{}, err
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		write.Close()
		return outcome{}, err
	}
	write.Close()
	// A child of the test may keep the pipe open after the test has ended; do not wait for it.
	done := make(chan error, 1)
	go func() {
		done <- cmd.Wait()
		_ = read.SetReadDeadline(time.Now().Add(5 * time.Second))
	}()
	o := parse(io.TeeReader(read, log))
	return o, <-done
}

// verdict matches the result line of a top-level test; those of subtests are indented.
var verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)

func parse(in io.Reader) outcome {
	var o outcome
	begun := map[string]bool{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok && !strings.Contains(name, "/") {
			begun[strings.TrimSpace(name)] = true
		}
		if m := verdict.FindStringSubmatch(line); m != nil {
			delete(begun, m[2])
			switch m[1] {
			case "PASS":
				seconds, _ := strconv.ParseFloat(m[3], 64)
				o.passed = append(o.passed, gpurecord.Test{Name: m[2], Seconds: seconds})
			case "FAIL":
				o.failed = append(o.failed, m[2])
			case "SKIP":
				o.skipped = append(o.skipped, m[2])
			}
		}
		if err != nil {
			break
		}
	}
	for name := range begun {
		o.failed = append(o.failed, name+" (did not finish)")
	}
	return o
}
