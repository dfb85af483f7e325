package cuda_test

import (
	"errors"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/copier"
)

// Importing the package is enough for comms to stage memory of GPUs; without a GPU the error names the driver.
func TestCopierRegistered(t *testing.T) {
	d, err := copier.Open(0)
	if cuda.Available() != nil {
		if err == nil || errors.Is(err, copier.ErrNone) {
			t.Errorf("without a GPU: got %v, want an error of the driver", err)
		}
		return // tests/gpu stages memory of GPUs
	}
	if err != nil || d.Down == nil || d.Up == nil || d.Pinned == nil {
		t.Errorf("got %+v, %v; want two queues and pinned memory", d, err)
	}
}
