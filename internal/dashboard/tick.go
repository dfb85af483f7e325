package dashboard

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// tick is an event of the live stream.
type tick struct {
	ID    string `json:"id"`
	Now   int64  `json:"now"`
	Last  int64  `json:"last"`
	Rows  int    `json:"rows"`
	Names int    `json:"names"`
	Counts
	Rate      float64            `json:"rate"`       // finished tasks per second
	BytesRate map[string]float64 `json:"bytes_rate"` // by transport
}

// rates computes rates from the differences of two ticks. The last tick for viewers that have left may overlap the
// first one for those that come.
type rates struct {
	mu       sync.Mutex // guards what follows
	at       time.Time
	finished int64
	moved    map[string]int64
	rate     float64
	bytes    map[string]float64
}

// leastRate is the shortest time over which a rate is computed: heartbeats, with which workers report transfers, arrive
// twice a second at most.
const leastRate = 2 * time.Second

// update returns the finished tasks and moved bytes per second. The map does not change afterwards.
func (r *rates) update(now time.Time, c *Counts) (rate float64, bytes map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := now.Sub(r.at)
	if r.at.IsZero() || took >= leastRate || c.Finished < r.finished {
		if !r.at.IsZero() && c.Finished >= r.finished {
			r.rate = float64(c.Finished-r.finished) / took.Seconds()
			r.bytes = map[string]float64{}
			for name, n := range c.Moved {
				r.bytes[name] = float64(n-r.moved[name]) / took.Seconds()
			}
		}
		r.at, r.finished, r.moved = now, c.Finished, c.Moved
	}
	if r.bytes == nil {
		r.bytes = map[string]float64{}
	}
	return r.rate, r.bytes
}

// tick returns the next event of the live stream.
func (s *Server) tick(ctx context.Context) ([]byte, error) {
	m := s.store.Meta()
	t := tick{Now: s.now(m.Origin), Last: m.Last, Rows: m.Rows, Names: m.Names}
	if s.source != nil {
		var err error
		if t.Counts, err = s.source.Counts(ctx); err != nil {
			return nil, err
		}
		t.ID = s.source.Identity().ID
		t.Rate, t.BytesRate = s.rates.update(time.Now(), &t.Counts)
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b)+32)
	out = append(out, "event: tick\ndata: "...)
	out = append(out, b...)
	return append(out, "\n\n"...), nil
}
