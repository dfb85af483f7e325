package task

import (
	"context"

	"go.millstream.dev/internal/task"
)

// Device is the GPU of a worker, as its tasks use it. The worker owns it: a task closes nothing of it. Its fields:
//
//	Ordinal    int           // the number of the GPU in this process: 0 in a worker that was started with one
//	UUID, Name string        // as nvidia-smi -L prints them
//	Memory     mem.Resource  // allocates on the GPU, from the worker's pool if it has one
//	Pinned     mem.Resource  // allocates page-locked host memory, which the GPU copies at full speed
//	Stream     mem.Stream    // shared by the worker's tasks; see cuda.StreamOf
//
// What a task returns should come from Memory: it is then counted once, and one registration serves all transfers. An
// allocation that would exceed --device-memory-limit first moves results that no task uses to host memory.
type Device = task.Device

// CurrentDevice returns the GPU of the worker that runs the task whose context is ctx. The error is ErrNoDevice on a
// worker without one, ErrOutside outside a task.
//
//	d, err := task.CurrentDevice(ctx)
//	if err != nil {
//		return nil, err
//	}
//	b, err := d.Memory.Alloc(ctx, 4*n)
func CurrentDevice(ctx context.Context) (*Device, error) { return task.CurrentDevice(ctx) }
