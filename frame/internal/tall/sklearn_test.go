//go:build sklearn

package tall_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
)

// Compares with scikit-learn itself on data that the golden file does not have. `make interop` runs it, with the Python
// of `scripts/setup sklearn`.
func TestScikitLearn(t *testing.T) {
	python := os.Getenv("MILLSTREAM_SKLEARN_PYTHON")
	if python == "" {
		python = "../../../.local/sklearn/env/bin/python"
	}
	ctx, c := connect(t, 3, cluster.Goroutines)
	for seed := 1; seed <= 6; seed++ {
		out, err := exec.CommandContext(ctx, python, "testdata/make_golden.py", strconv.Itoa(seed)).Output()
		if err != nil {
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				t.Fatalf("%v: %s", err, failed.Stderr)
			}
			t.Fatalf("%v: run scripts/setup sklearn, or name a Python with scikit-learn by MILLSTREAM_SKLEARN_PYTHON",
				err)
		}
		cases := parseGoldens(t, out)
		t.Logf("seed %d: %d tables", seed, len(cases))
		for _, g := range cases {
			f, err := frame.FromBatches(ctx, c, g.batches(0, 1, 5, 0, 2))
			if err != nil {
				t.Fatal(err)
			}
			g.checkFrame(t, ctx, f, nil)
			f.Release()
		}
	}
}
