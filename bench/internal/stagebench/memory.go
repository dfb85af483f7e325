package stagebench

import (
	"context"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// CUDAMemory returns a pool on a GPU, like that of a worker.
func CUDAMemory(device int) (*Memory, error) {
	if err := cuda.Available(); err != nil {
		return nil, err
	}
	pool, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{})
	if err != nil {
		return nil, err
	}
	return &Memory{
		Resource: pool,
		Store: func(ctx context.Context, dst *mem.Buffer, data []byte) error {
			return cuda.CopyFromHost(ctx, dst, data)
		},
		Load: func(ctx context.Context, dst []byte, src *mem.Buffer) error { return cuda.CopyToHost(ctx, dst, src) },
	}, nil
}
