// Package gpurecord reads and writes docs/gpu-run.json, the record of the last run of the GPU tests. It proves on
// machines without a GPU that each GPU test has passed.
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

// Test is a test that passed.
type Test struct {
	// Package is the import path.
	Package string `json:"package"`
	// Name is the test function; its subtests are included.
	Name string `json:"name"`
	// Seconds is the duration of the test.
	Seconds float64 `json:"seconds"`
}

// Record is the content of docs/gpu-run.json.
type Record struct {
	// Device is the product name of the GPU, as nvidia-smi prints it.
	Device string `json:"device"`
	// Driver is the version of the NVIDIA driver.
	Driver string `json:"driver"`
	// CUDA is the newest CUDA version that the driver supports.
	CUDA string `json:"cuda"`
	// UCX is the release of UCX.
	UCX string `json:"ucx"`
	// Commit is the revision of the test binaries.
	Commit string `json:"commit"`
	// Date is the day of the run, YYYY-MM-DD, in UTC.
	Date string `json:"date"`
	// Sources are hashes of the sources of the test binaries, by import path; see Sources.
	Sources map[string]string `json:"sources,omitempty"`
	// Tests are the tests that passed.
	Tests []Test `json:"tests"`
}

// Load reads a record. It returns nil without an error if the file does not exist.
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

// Save writes the record, one test per line, so that diffs are readable.
func (r *Record) Save(name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644)
}

// Check compares the record with the GPU tests of the tree: it returns an error for empty fields and missing tests. A
// record without tests passes.
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
