//go:build !(nvml && cgo && linux)

package nvml

import (
	"errors"

	"go.millstream.dev/internal/device/topology"
)

// Driver is the open library.
type Driver struct{}

// Open returns an error: this program was built without NVML.
func Open() (*Driver, error) {
	return nil, errors.New("topology/nvml: program built without NVML; build with -tags nvml and cgo for " +
		"memory sizes and MIG")
}

// GPUs returns the error of Open.
func (*Driver) GPUs() ([]topology.DriverGPU, error) {
	_, err := Open()
	return nil, err
}

// Close does nothing.
func (*Driver) Close() error { return nil }
