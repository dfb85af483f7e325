package workers

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/scheduler/internal/peers"
)

// probeTime bounds how long a removed worker is dialed.
const probeTime = time.Second

// probe dials a worker whose connection was lost and that was the only holder of data. If its host refuses the
// connection, its process has ended and the data is lost.
func (s *Workers) probe(w *peers.Worker) {
	s.Go(func() {
		ctx, cancel := context.WithTimeout(s.Context, probeTime)
		defer cancel()
		c, err := s.Dial(ctx, w.Address)
		if err == nil {
			c.Abort()
			return
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = s.Loop.Do(s.Context, func() {
				if s.ByAddress[w.Address] == nil {
					s.Log.Warn("worker process ended; data that only it held is lost", "worker", w.Address,
						"error", err)
					s.Apply(&state.ForgetDeparted{Token: w.Incarnation})
				}
			})
		}
	})
}
