package member

import (
	"context"
	"fmt"
	"strconv"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/task"
)

// device returns the GPU of Config.Device, nil for none.
func (c *Config) device() (*task.Device, error) {
	if c.Device == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(c.Device)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("member: %w: device %.80q: want the number of a GPU, or none", ErrInvalid, c.Device)
	}
	d, err := cuda.DeviceByOrdinal(n)
	if err != nil {
		return nil, fmt.Errorf("member: device %d: %w", n, err)
	}
	return &task.Device{Ordinal: n, UUID: d.UUID, Name: d.Name}, nil
}

// SetStream sets the CUstream that orders later operations on device memory; 0 is the legacy default stream.
func (m *Member) SetStream(stream uintptr) { m.stream.Store(uint64(stream)) }

// NCCL returns the ncclComm_t of the ranks and the CUstream of its collectives. It is a collective.
func (m *Member) NCCL() (comm, stream uintptr, err error) {
	r, err := m.Rank()
	if err != nil {
		return 0, 0, err
	}
	if by := r.DeviceBackend(); by != clique.NCCL {
		return 0, 0, fmt.Errorf("member: %w: device memory moves by %q, not by NCCL; open the communicator with backend "+
			"%q and a device", ErrInvalid, by, clique.NCCL)
	}
	ctx, cancel := m.bounded()
	defer cancel()
	c, s, err := r.NCCL(ctx)
	if err != nil {
		return 0, 0, err
	}
	comm, err = c.Handle(ctx)
	return comm, s.Handle(), err
}

// SyncStream waits until the work on a CUstream has ended. It returns the error of the clique if that fails first.
func (m *Member) SyncStream(stream uintptr) error {
	r, err := m.Rank()
	if err != nil {
		return err
	}
	e, err := cuda.StreamFromHandle(max(r.Device(), 0), stream).Record()
	if err != nil {
		return fmt.Errorf("member: %w: stream %#x: %w", ErrInvalid, stream, err)
	}
	ctx, cancel := m.bounded()
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-r.Done():
			stop(r.Err())
		case <-ctx.Done():
		}
	}()
	if err := e.Wait(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("member: wait for stream %#x: %w", stream, err)
	}
	return r.Err()
}
