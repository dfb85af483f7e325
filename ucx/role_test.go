package ucx

import (
	"context"
	"time"
)

// roleContext bounds a helper's waiting, as testContext does a test's.
func roleContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

// roleWorker makes a context and a worker in a helper process; done closes both.
func roleWorker(cfg Config) (w *Worker, done func(), err error) {
	c, err := NewContext(cfg)
	if err != nil {
		return nil, nil, err
	}
	if w, err = c.NewWorker(WorkerConfig{}); err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return w, func() { _ = w.Close(); _ = c.Close() }, nil
}

// alive tells whether the helper still runs.
func (h *helper) alive() bool {
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}
