//go:build !(nvml && cgo && linux)

package nvml_test

import (
	"strings"
	"testing"

	"go.millstream.dev/cli/internal/nvml"
	"go.millstream.dev/internal/device/topology"
)

func TestWithout(t *testing.T) {
	if _, err := nvml.Open(); err == nil || !strings.Contains(err.Error(), "-tags nvml") {
		t.Errorf("%v", err)
	}
	var d nvml.Driver
	if _, err := topology.Read(topology.Config{Driver: &d}); err == nil ||
		!strings.Contains(err.Error(), "GPUs of the driver") {
		t.Errorf("%v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
