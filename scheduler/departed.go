package scheduler

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/secure"
)

// probeTime bounds how long a removed worker is dialed.
const probeTime = time.Second

// probe dials a worker whose connection was lost and that alone held data. If its host refuses the connection, its process
// is dead: what waits for the data need not wait any longer.
func (s *Scheduler) probe(w *peers.Worker) {
	s.serving.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, probeTime)
		defer cancel()
		c, err := s.cfg.Network.Dial(ctx, w.Address, s.cfg.Dial.To(secure.Worker))
		if err == nil {
			c.Abort()
			return
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = s.loop.Do(s.ctx, func() {
				if s.workers.ByAddress[w.Address] == nil {
					s.log.Warn("worker does not come back; data that only it held is lost", "worker", w.Address, "error", err)
					s.apply(&state.ForgetDeparted{Token: w.Incarnation})
				}
			})
		}
	})
}
