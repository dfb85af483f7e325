// Package gpurecord reads and writes docs/gpu-run.json, the record of the last run of the GPU tests.
// Most machines have no GPU: the record is how they know that each GPU test has passed somewhere.
package gpurecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.millstream.dev/internal/tools/testfuncs"
)

// Test is one test that passed.
type Test struct {
	// Package is the import path.
	Package string `json:"package"`
	// Name is the test function; subtests are part of it.
	Name string `json:"name"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// Record is the content of docs/gpu-run.json.
type Record struct {
	// Device is the GPU's product name, as nvidia-smi prints it.
	Device string `json:"device"`
	// Driver is the version of the NVIDIA driver.
	Driver string `json:"driver"`
	// CUDA is the newest CUDA version the driver supports.
	CUDA string `json:"cuda"`
	// UCX is the release of libucx that ran.
	UCX string `json:"ucx"`
	// Commit is the source revision of the test binaries.
	Commit string `json:"commit"`
	// Date is the day of the run, YYYY-MM-DD, in UTC.
	Date string `json:"date"`
	// Sources are hashes of the sources of the test binaries, by import path: see Sources.
	Sources map[string]string `json:"sources,omitempty"`
	// Tests are those that passed.
	Tests []Test `json:"tests"`
}

// Load reads a record. A file that is not there gives nil and no error: there has been no run yet.
func Load(name string) (*Record, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Save writes the record, one test a line, so that a new run makes a readable diff.
func (r *Record) Save(name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644)
}

// Check says what is wrong with the record, given the GPU tests of the tree: a field that is empty, a test
// that is not in it. A record without tests is no record yet and passes.
func (r *Record) Check(tests []testfuncs.Func) error {
	if r == nil || len(r.Tests) == 0 {
		return nil
	}
	var problems []string
	for _, f := range []struct{ name, value string }{
		{"device", r.Device}, {"driver", r.Driver}, {"cuda", r.CUDA}, {"ucx", r.UCX}, {"commit", r.Commit},
		{"date", r.Date},
	} {
		if f.value == "" {
			problems = append(problems, fmt.Sprintf("field %q is empty", f.name))
		}
	}
	if _, err := time.Parse(time.DateOnly, r.Date); r.Date != "" && err != nil {
		problems = append(problems, fmt.Sprintf("date %q is not YYYY-MM-DD", r.Date))
	}
	passed := make(map[[2]string]bool)
	for _, t := range r.Tests {
		passed[[2]string{t.Package, t.Name}] = true
	}
	for _, t := range tests {
		if !passed[[2]string{t.Package, t.Name}] {
			problems = append(problems, fmt.Sprintf("%s (%s) is missing", t.Name, t.File))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}
