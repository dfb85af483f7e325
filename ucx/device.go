package ucx

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
)

// copyToDevice puts host bytes into device memory: eager active messages arrive on
// the host, whatever memory their sender used.
func (w *Worker) copyToDevice(ctx context.Context, v View, data []byte) error {
	h, ok := mem.Hooks()
	if !ok || h.CopyIn == nil {
		return &OpError{Op: "am receive", Err: fmt.Errorf("ucx: device memory needs package cuda: import go.millstream.dev/cuda")}
	}
	if err := h.CopyIn(ctx, int(v.device), v.base(), data); err != nil {
		return &OpError{Op: "am receive", Err: err}
	}
	return nil
}
