package memory

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
)

// largeResult is the size of a result, in bytes, from which its task waits while memory is short.
const largeResult = 1 << 20

// Limited reports whether there is a memory limit.
func (m *Manager) Limited() bool { return m.cfg.Limit > 0 }

// OnDevice reports whether a value is in the memory of the worker's GPU, which has a limit of its own.
func (m *Manager) OnDevice(v *task.Value) bool {
	return m.cfg.Device != nil && m.cfg.Device.Tier.OnDevice(v) > 0
}

// Reserve makes room for the result of a task: the size of previous results of its function, and at least the size of
// its inputs, because the data of all threads must fit next to the stored data. It returns the value for Unreserve.
func (m *Manager) Reserve(ctx context.Context, function string, inputs []*store.Entry) (int64, error) {
	n := m.sizes.expected(function)
	var sum int64
	for _, e := range inputs {
		sum += e.NBytes()
	}
	if n = max(n, sum); n < largeResult {
		return 0, nil
	}
	if err := m.data.Reserve(ctx, n); err != nil {
		return 0, err
	}
	m.throttle(ctx, n)
	return n, nil
}

// Unreserve releases the room that Reserve returned.
func (m *Manager) Unreserve(n int64) {
	if n > 0 {
		m.data.Unreserve(n)
	}
}

// Keep makes room for the result of a function: the task waits while other data is spilled. An error other than that of
// ctx is joined with task.ErrReschedule.
func (m *Manager) Keep(ctx context.Context, key task.Key, function string, nbytes int64) error {
	m.sizes.observe(function, nbytes)
	if err := m.data.MakeRoom(ctx, nbytes); err != nil && ctx.Err() == nil {
		m.log.Warn("no room for a result; task returned to the scheduler", "key", key.String(), "bytes", nbytes,
			"error", err)
		return errors.Join(task.ErrReschedule, err)
	}
	m.throttle(ctx, nbytes)
	return nil
}

// MakeRoom waits until the values that are in host memory fit into it.
func (m *Manager) MakeRoom(ctx context.Context, values []*task.Value, stored []state.Stored) error {
	if m.cfg.Limit <= 0 {
		return nil
	}
	var sum int64
	for i, v := range values {
		if !m.OnDevice(v) {
			sum += stored[i].NBytes
		}
	}
	return m.data.MakeRoom(ctx, sum)
}

// Admit waits until values of a peer fit into memory, or ctx ends. Without room they are stored nevertheless: they have
// arrived, and tasks wait for them.
func (m *Manager) Admit(ctx context.Context, peer string, values []*task.Value, stored []state.Stored) {
	for i, v := range values {
		_ = m.data.MakeRoomFor(ctx, v, stored[i].NBytes) // fails only when ctx ends
	}
	if err := m.MakeRoom(ctx, values, stored); err != nil && ctx.Err() == nil {
		m.log.Warn("no room for data of a peer", "peer", peer, "error", err)
	}
}

// throttle delays a task with a large result while the process is above the pause threshold: otherwise each thread
// could start another task before the next measurement. The delay is bounded, because the memory may belong to user
// code.
func (m *Manager) throttle(ctx context.Context, nbytes int64) {
	if m.cfg.Limit <= 0 || nbytes < largeResult {
		return
	}
	for range 50 {
		used := m.Usage()
		if m.above(used, m.cfg.Fractions.Pause) {
			used = m.free(ctx, used)
		}
		if !m.above(used, m.cfg.Fractions.Pause) {
			return
		}
		t := time.NewTimer(20 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
