package task

import (
	"context"

	"go.millstream.dev/internal/task"
)

// Device is the GPU of a worker for use by its tasks. The worker owns it: tasks must not close any part of it. Its
// fields:
//
//	Ordinal    int           // the index of the GPU in this process: 0 in a worker that was started with one GPU
//	UUID, Name string        // as nvidia-smi -L prints them
//	Memory     mem.Resource  // allocates on the GPU, from the worker's pool if it has one
//	Pinned     mem.Resource  // allocates page-locked host memory, which the GPU copies at full speed
//	Stream     mem.Stream    // shared by the worker's tasks; see cuda.StreamOf
//
// Results of a task should be allocated from Memory: they are then counted once, and one registration serves all
// transfers. An allocation that would exceed --device-memory-limit first moves results that no task uses to host
// memory.
type Device = task.Device

// CurrentDevice returns the GPU of the worker that runs the task whose context is ctx. It returns ErrNoDevice on a
// worker without a GPU and ErrOutside outside a task.
//
//	d, err := task.CurrentDevice(ctx)
//	if err != nil {
//		return nil, err
//	}
//	b, err := d.Memory.Alloc(ctx, 4*n)
func CurrentDevice(ctx context.Context) (*Device, error) { return task.CurrentDevice(ctx) }
