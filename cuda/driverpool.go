package cuda

import (
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
)

// SetReleaseThreshold sets how many unused bytes the driver's own memory pool of a device keeps, from which
// NewAsyncResource allocates: the rest is freed at the next synchronization of the device. The driver's default is 0.
// It creates no context.
func SetReleaseThreshold(device int, bytes int64) error {
	if bytes < 0 {
		return fmt.Errorf("cuda: negative release threshold of %d bytes: use 0 for none", bytes)
	}
	return check("release threshold of the memory pool", device, cudrv.PoolKeep(device, uint64(bytes)))
}

// DriverPoolBytes returns the size of the driver's own memory pool of a device in bytes, whether used or not. It
// creates no context.
func DriverPoolBytes(device int) (int64, error) {
	n, r := cudrv.PoolReserved(device)
	return int64(n), check("size of the memory pool", device, r)
}
