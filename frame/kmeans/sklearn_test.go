//go:build sklearn

package kmeans

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Compares with scikit-learn itself on data that the golden files do not have: the same labels, centers, iterations and
// inertia. `make interop` runs it, with the Python of `scripts/setup sklearn`.
func TestScikitLearn(t *testing.T) {
	python := os.Getenv("MILLSTREAM_SKLEARN_PYTHON")
	if python == "" {
		python = "../../.local/sklearn/env/bin/python"
	}
	for seed := 1; seed <= 6; seed++ {
		out, err := exec.Command(python, "testdata/make_golden.py", strconv.Itoa(seed)).Output()
		if err != nil {
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				t.Fatalf("%v: %s", err, failed.Stderr)
			}
			t.Fatalf("%v: run scripts/setup sklearn, or name a Python with scikit-learn by MILLSTREAM_SKLEARN_PYTHON",
				err)
		}
		cases := parseGoldens(t, out)
		if len(cases) == 0 {
			t.Fatal("got no results of scikit-learn")
		}
		t.Logf("seed %d: %d fits of scikit-learn", seed, len(cases))
		checkGoldens(t, cases)
	}
}
