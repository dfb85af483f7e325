package rig

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.millstream.dev/internal/proc/childproc"
)

// Check is one thing that a Python program has looked at.
type Check struct {
	// Name of the check, whether it held, and what was found, as text.
	Name string `json:"check"`
	OK   bool   `json:"ok"`
	Got  string `json:"got"`
}

// Result is what a Python program has told.
type Result struct {
	// Checks in their order; those that failed have failed the test already.
	Checks []Check
	// Values are what the program has told by tell(name, value).
	Values map[string]any
}

// Python runs a program of tests/dask/peers as a client of a scheduler, whose address is its first argument; see
// checks.py there. Each check that does not hold fails the test, and so does a program that ends with an error or
// makes none.
func (r *Rig) Python(scheduler, program string, args ...string) Result {
	r.Helper()
	full := append([]string{filepath.Join(Root(), "tests", "dask", "peers", program), scheduler}, args...)
	return r.checks(program, r.python(full...), nil)
}

// Script runs Python source as a client: `client` is connected, and check(name, got, want), raises(name, error,
// function) and tell(name, value) are there; distributed, dask, da (dask.array) and np are imported when used.
func (r *Rig) Script(scheduler, source string, args ...string) Result {
	r.Helper()
	full := append([]string{filepath.Join(Root(), "tests", "dask", "peers", "script.py"), scheduler}, args...)
	cmd := r.python(full...)
	cmd.Stdin = strings.NewReader(source)
	return r.checks("script", cmd, &source)
}

func (r *Rig) checks(name string, cmd *exec.Cmd, source *string) Result {
	r.Helper()
	res := Result{Values: map[string]any{}}
	log := &Log{name: r.name(name)}
	cmd.Env = r.env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stderr = logWriter{log}
	child, err := childproc.Start(cmd, func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var c struct {
				Check
				Tell  string `json:"tell"`
				Value any    `json:"value"`
			}
			switch {
			case json.Unmarshal(lines.Bytes(), &c) != nil || c.Name == "" && c.Tell == "":
				log.add(lines.Text() + "\n") // a library that prints
			case c.Tell != "":
				res.Values[c.Tell] = c.Value
			default:
				res.Checks = append(res.Checks, c.Check)
			}
		}
	})
	if err != nil {
		r.Fatal(err)
	}
	limit := 2 * Patience
	if r.Protocol == "ucxx" {
		limit *= 3 // as in With
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-child.Done:
	case <-late.C:
		_ = childproc.Kill(cmd)
		<-child.Done
		r.Errorf("%s has not ended after %v", name, limit)
	}
	for _, c := range res.Checks {
		if !c.OK {
			r.Errorf("%s: %s: got %s", name, c.Name, c.Got)
		}
	}
	if child.Err != nil {
		r.Errorf("%s: %v", name, child.Err)
	} else if len(res.Checks) == 0 {
		r.Errorf("%s has checked nothing", name)
	}
	if r.Failed() && os.Getenv("LOUD") == "" {
		if source != nil {
			r.Logf("the program was:\n%s", *source)
		}
		r.Logf("log of %s:\n%s", log.name, log)
	}
	return res
}

type logWriter struct{ l *Log }

func (w logWriter) Write(b []byte) (int, error) {
	w.l.add(string(b))
	return len(b), nil
}
