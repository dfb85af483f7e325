//go:build !cgo

package nvml_test

import (
	"errors"
	"testing"

	"go.millstream.dev/internal/device/nvml"
)

func TestWithoutCgo(t *testing.T) {
	if _, err := nvml.Open(); !errors.Is(err, nvml.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	var l nvml.Library
	if list, err := l.GPUs(); list != nil || !errors.Is(err, nvml.ErrUnavailable) {
		t.Errorf("got %v, %v, want ErrUnavailable", list, err)
	}
}
