package memory

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
)

// largeResult is from which size a task that has made a result waits while memory is short.
const largeResult = 1 << 20

// Limited reports whether there is a limit.
func (m *Manager) Limited() bool { return m.cfg.Limit > 0 }

// OnDevice reports whether a value is in the memory of the worker's GPU, which has a limit of its own.
func (m *Manager) OnDevice(v *task.Value) bool {
	return m.cfg.Device != nil && m.cfg.Device.Tier.OnDevice(v) > 0
}

// Reserve makes room for the result of a task, by what its function made before, and no less than the task reads: the
// data of all threads must fit next to what is kept. It returns what to give to Unreserve.
func (m *Manager) Reserve(ctx context.Context, function string, inputs []*store.Entry) (int64, error) {
	n := m.sizes.of(function)
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
	m.brake(ctx, n)
	return n, nil
}

// Unreserve gives back what Reserve has returned.
func (m *Manager) Unreserve(n int64) {
	if n > 0 {
		m.data.Unreserve(n)
	}
}

// Keep makes room for the result of a function: the task that made data waits for the disk, if that is where other data
// must go first. An error other than that of ctx is joined with task.ErrReschedule.
func (m *Manager) Keep(ctx context.Context, key task.Key, function string, nbytes int64) error {
	m.sizes.observe(function, nbytes)
	if err := m.data.MakeRoom(ctx, nbytes); err != nil && ctx.Err() == nil {
		m.log.Warn("no room for a result: the task is given back", "key", key.String(), "bytes", nbytes, "error", err)
		return errors.Join(task.ErrReschedule, err)
	}
	m.brake(ctx, nbytes)
	return nil
}

// MakeRoom waits until values fit into the host's memory, as far as that is where they are.
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

// Admit waits until values of a peer fit into memory, or ctx ends. Without room they are kept nevertheless: they are
// here and tasks wait for them.
func (m *Manager) Admit(ctx context.Context, peer string, values []*task.Value, stored []state.Stored) {
	for i, v := range values {
		_ = m.data.MakeRoomFor(ctx, v, stored[i].NBytes) // it ends only with ctx
	}
	if err := m.MakeRoom(ctx, values, stored); err != nil && ctx.Err() == nil {
		m.log.Warn("no room for data of a peer", "peer", peer, "error", err)
	}
}

// brake holds a task back that has made a large result while the process is above the pause fraction: otherwise each
// thread could start another one before the next look at the memory. It does not hold it for ever, as the memory may be
// the user's own.
func (m *Manager) brake(ctx context.Context, nbytes int64) {
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
