package benchpeer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of the Python peers on the command line and in figures.
const (
	UCXXAsyncName = "ucxx-async"
	UCXXCoreName  = "ucxx-core"
)

// UCXX is an installed Python UCXX with the program that measures it. Close removes the program.
type UCXX struct {
	name    string
	program *Program
	environ []string
}

// FindUCXX finds a Python with UCXX (see [FindPython]) and unpacks the program.
func FindUCXX(name string, environ []string) (*UCXX, error) {
	program, err := FindProgram(name, ScriptUCXX, environ)
	if err != nil {
		return nil, err
	}
	return &UCXX{name: name, program: program, environ: environ}, nil
}

// Close removes the files of the program. It may be called twice.
func (u *UCXX) Close() error { return u.program.Close() }

// Name returns the name of the peer.
func (u *UCXX) Name() string { return u.name }

// UCXXRun is one measurement.
type UCXXRun struct {
	// Case is tag-lat, tag-bw or idle-cpu.
	Case string
	// Size is the size of a message in bytes.
	Size int64
	// Iterations is the number of measured iterations, Warmup that of iterations before them.
	Iterations, Warmup int
	// Window is the number of outstanding operations of tag-bw.
	Window int
	// Seconds is the duration of idle-cpu.
	Seconds float64
	// Memory is "host" or "cuda".
	Memory string
	// Env are the variables of the setting, as "NAME=value".
	Env []string
}

// maxUCXXIterations keeps a run short: operations of UCXX take ten to a hundred times as long as those of Millstream,
// whose number the caller passes.
const maxUCXXIterations = 4_000

// ucxxResult is the last line that the script prints.
type ucxxResult struct {
	Value *float64 `json:"value"`
	Unit  string   `json:"unit"`
	Error string   `json:"error"`
}

// Run measures once and returns microseconds (tag-lat), GB/s (tag-bw) or percent of a core (idle-cpu).
func (u *UCXX) Run(ctx context.Context, r UCXXRun) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	iterations := min(r.Iterations, maxUCXXIterations)
	args := []string{
		u.program.Script, "--api", strings.TrimPrefix(u.name, "ucxx-"), "--case", r.Case, "--size",
		strconv.FormatInt(r.Size, 10),
		"--iterations", strconv.Itoa(iterations), "--warmup", strconv.Itoa(min(r.Warmup, iterations/10+1)),
		"--window", strconv.Itoa(max(r.Window, 1)), "--seconds", strconv.FormatFloat(r.Seconds, 'f', -1, 64), "--mem",
		r.Memory,
	}
	fail := func(err error) (float64, error) {
		return 0, fmt.Errorf("%s %s of %d bytes: %w", u.name, r.Case, r.Size, err)
	}
	p, err := start(ctx, append(slices.Clone(u.environ), r.Env...), u.program.Python, args...)
	if err != nil {
		return fail(err)
	}
	if err := p.wait(); err != nil {
		if ctx.Err() != nil {
			return fail(context.Cause(ctx))
		}
		return fail(err)
	}
	v, err := parseUCXX(p.stdout.String())
	if err != nil {
		return fail(err)
	}
	return v, nil
}

// parseUCXX parses the last line that is a JSON object; UCX may log before it.
func parseUCXX(text string) (float64, error) {
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "{") {
			continue
		}
		var r ucxxResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return 0, fmt.Errorf("result %q: %w", line, err)
		}
		switch {
		case r.Error != "":
			return 0, errors.New(r.Error)
		case r.Value == nil:
			return 0, fmt.Errorf("result %q has no value", line)
		}
		return *r.Value, nil
	}
	return 0, fmt.Errorf("no result in output %q", strings.TrimSpace(text))
}
