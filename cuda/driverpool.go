package cuda

import (
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
)

// SetReleaseThreshold says how many bytes that are not used the driver's own pool of a device
// keeps, which NewAsyncResource allocates from: it gives the rest back when the device is next
// waited for. The driver's default is 0. It makes no context.
func SetReleaseThreshold(device int, bytes int64) error {
	if bytes < 0 {
		return fmt.Errorf("cuda: a release threshold of %d bytes: give 0 for none", bytes)
	}
	return check("release threshold of the memory pool", device, cudrv.PoolKeep(device, uint64(bytes)))
}

// DriverPoolBytes is how many bytes the driver's own pool of a device has, whether they are
// used or not. It makes no context.
func DriverPoolBytes(device int) (int64, error) {
	n, r := cudrv.PoolReserved(device)
	return int64(n), check("size of the memory pool", device, r)
}
