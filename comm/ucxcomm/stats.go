package ucxcomm

import (
	"go.millstream.dev/internal/comm/ucxstats"
	"go.millstream.dev/ucx"
)

// track adds the counters of a worker to those of the process; closeTracked removes them.
func track(w *ucx.Worker) {
	ucxstats.Add(w, func() ucxstats.Counters {
		s := w.Stats()
		c := ucxstats.Counters{Ops: make(map[string]ucxstats.Op, len(s.Ops)), Errors: s.Errors,
			EndpointErrors: s.EndpointErrors, Messages: s.Messages, MessageBytes: s.MessageBytes,
			MessagesDropped: s.MessagesDropped, Progress: s.Progress, SpinsWon: s.SpinsWon, SpinsLost: s.SpinsLost,
			Parks: s.Parks, InFlight: s.InFlight, Endpoints: int64(s.Endpoints)}
		for name, n := range s.Ops {
			c.Ops[name] = ucxstats.Op(n)
		}
		return c
	})
}

// closeTracked closes a worker of track.
func closeTracked(w *ucx.Worker) {
	ucxstats.Remove(w)
	_ = w.Close()
}
