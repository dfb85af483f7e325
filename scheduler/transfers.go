package scheduler

import (
	"context"
	"encoding/json"
	"strings"

	"go.millstream.dev/wire/msgpack"
)

// transfer is one movement of results between two workers, as one of them reported it with
// its heartbeat.
type transfer struct {
	Worker   string  `json:"worker"`
	Peer     string  `json:"peer"`
	Incoming bool    `json:"incoming"`
	Lane     string  `json:"lane"`
	Bytes    int64   `json:"bytes"`
	Keys     int64   `json:"keys"`
	Start    float64 `json:"start"`    // seconds since 1970
	Duration float64 `json:"duration"` // seconds
}

// transferLog is a ring of the latest transfers. The loop owns it.
type transferLog struct {
	ring  []transfer
	limit int
	count int64
	lanes map[string]laneTotal
}

// laneTotal is what one kind of lane has carried since the start.
type laneTotal struct {
	bytes, transfers int64
	seconds          float64
}

// maxLanes bounds the names of lanes that workers can make up.
const maxLanes = 64

func (l *transferLog) init(limit int) { l.limit, l.lanes = max(limit, 0), map[string]laneTotal{} }

func (l *transferLog) add(worker string, list []transfer) {
	for _, t := range list {
		t.Worker = worker
		l.count++
		if t.Incoming { // each transfer has two ends; one of them counts
			total, known := l.lanes[t.Lane]
			if known || len(l.lanes) < maxLanes {
				total.bytes += t.Bytes
				total.transfers++
				total.seconds += t.Duration
				l.lanes[t.Lane] = total
			}
		}
		if l.limit == 0 {
			continue
		}
		if len(l.ring) < l.limit {
			l.ring = append(l.ring, t)
		} else {
			l.ring[(l.count-1)%int64(l.limit)] = t
		}
	}
}

// list is oldest first.
func (l *transferLog) list() []transfer {
	out := make([]transfer, 0, len(l.ring))
	for i := l.count - int64(len(l.ring)); i < l.count; i++ {
		out = append(out, l.ring[i%int64(l.limit)])
	}
	return out
}

// transfersOf reads what a worker's heartbeat says in extensions.millstream.transfers: a
// list of [start, stop, bytes, lane, peer, direction, number of keys].
func transfersOf(extensions any) []transfer {
	ext, _ := extensions.(msgpack.Map)
	ours, _ := ext.Get("millstream")
	m, _ := ours.(msgpack.Map)
	v, _ := m.Get("transfers")
	list, _ := v.([]any)
	var out []transfer
	for _, x := range list {
		f, _ := x.([]any)
		if len(f) < 7 {
			continue
		}
		start, ok1 := number(f[0])
		stop, ok2 := number(f[1])
		bytes, ok3 := integer(f[2])
		lane, ok4 := f[3].(string)
		peer, ok5 := f[4].(string)
		direction, _ := f[5].(string)
		keys, _ := integer(f[6])
		if ok1 && ok2 && ok3 && ok4 && ok5 {
			out = append(out, transfer{Peer: strings.Clone(peer), Incoming: direction != "outgoing", Lane: strings.Clone(lane),
				Bytes: bytes, Keys: keys, Start: start, Duration: stop - start})
		}
	}
	return out
}

func (s *Scheduler) transfersJSON(ctx context.Context) ([]byte, error) {
	list, err := ask(ctx, s, func() ([]transfer, error) { return s.transfer.list(), nil })
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"transfers": list})
}
