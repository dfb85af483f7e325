//go:build !(nvml && cgo && linux)

package nvml

import (
	"errors"

	"go.millstream.dev/internal/device/topology"
)

// Driver is the library, once opened.
type Driver struct{}

// Open loads the library.
func Open() (*Driver, error) {
	return nil, errors.New("topology/nvml: this program was built without NVML: build it with -tags nvml and cgo for " +
		"memory sizes and MIG")
}

// GPUs lists the GPUs that the driver shows to this process.
func (*Driver) GPUs() ([]topology.DriverGPU, error) {
	_, err := Open()
	return nil, err
}

// Close gives the library up.
func (*Driver) Close() error { return nil }
