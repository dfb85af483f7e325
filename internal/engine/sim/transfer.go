package sim

import (
	"time"

	work "go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task/taskid"
)

// maxOutgoing is the number of transfers that a worker serves at once before it replies busy.
const maxOutgoing = 10

// transfer is one get_data between two workers.
type transfer struct {
	from     *proc // receiver
	life     int
	peer     string
	keys     []taskid.Key
	answered bool
}

// gather carries out DoGather.
func (p *proc) gather(a *work.Action) {
	t := &transfer{from: p, life: p.life, peer: a.Peer.Address()}
	for _, x := range a.Tasks {
		t.keys = append(t.keys, x.Key())
	}
	w := p.w
	w.report.Transfers++
	q := w.byAddress(t.peer)
	now := w.clock.now
	switch {
	case q == nil:
		// The peer is not running: refused immediately, or after a while if the host is down.
		wait := w.delay()
		if w.rnd.IntN(4) == 0 {
			wait += 3 * time.Second
		}
		p.later(wait, func() { p.apply(&work.GatherNetworkFailure{Peer: t.peer}) })
	case now < max(p.cutPeers, q.cutPeers):
		// Behind a partition: the transfer completes if that ends soon, otherwise the receiver gives up.
		until := time.Duration(max(p.cutPeers, q.cutPeers) - now)
		if until > 5*time.Second {
			p.later(5*time.Second, func() { p.apply(&work.GatherNetworkFailure{Peer: t.peer}) })
			return
		}
		w.ask(t, q, until+w.delay())
	default:
		w.ask(t, q, w.delay())
	}
}

// ask delivers a request to the peer; if the peer crashes before its reply, the receiver notices.
func (w *world) ask(t *transfer, q *proc, after time.Duration) {
	life := q.life
	q.serving = append(q.serving, t)
	w.clock.after(after, func() {
		if q.life != life || !q.alive || t.answered {
			return
		}
		q.later(0, func() { w.answer(t, q) })
	})
}

func (w *world) answer(t *transfer, q *proc) {
	p := t.from
	if t.answered {
		return
	}
	if q.outgoing >= maxOutgoing || w.faulty() && w.rnd.Float64() < w.cfg.Faults.Busy {
		q.served(t)
		p.laterIf(t.life, w.delay(), func() { p.apply(&work.GatherBusy{Peer: t.peer}) })
		return
	}
	var data []work.Stored
	var values []uint64
	var sum int64
	for _, k := range t.keys {
		if v, ok := q.store[k]; ok {
			n := w.byKey[k]
			data = append(data, work.Stored{Key: k, NBytes: n.size, TypeName: "value"})
			values = append(values, v)
			sum += n.size
		}
	}
	q.outgoing++
	took := w.delay() + time.Duration(float64(sum)/w.cfg.Bandwidth*1e9*q.slow)
	q.later(took, func() {
		q.outgoing--
		if t.answered {
			return
		}
		q.served(t)
		p.laterIf(t.life, 0, func() {
			for i, d := range data {
				p.store[d.Key] = values[i]
			}
			p.apply(&work.GatherSuccess{Peer: t.peer, Data: data})
		})
	})
}

// served marks a transfer as answered.
func (p *proc) served(t *transfer) {
	t.answered = true
	for i, x := range p.serving {
		if x == t {
			p.serving = append(p.serving[:i], p.serving[i+1:]...)
			return
		}
	}
}

// abandon ends the transfers of a crashed peer: receivers notice, immediately or after a while.
func (p *proc) abandon(silent bool) {
	for _, t := range p.serving {
		t.answered = true
		wait := p.w.delay()
		if silent {
			wait += 3 * time.Second
		}
		q, peer := t.from, t.peer
		q.laterIf(t.life, wait, func() { q.apply(&work.GatherNetworkFailure{Peer: peer}) })
	}
	p.serving = nil
}

// laterIf calls later for a process in a given life.
func (p *proc) laterIf(life int, d time.Duration, f func()) {
	if p.alive && p.life == life {
		p.later(d, f)
	}
}
