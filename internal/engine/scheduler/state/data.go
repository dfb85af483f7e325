package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/taskid"
)

// updateData takes data in that came from outside.
func (s *State) updateData(ev *UpdateData) {
	c := s.Client(ev.Client)
	for i := range ev.Data {
		d := &ev.Data[i]
		t := s.tasks.get(d.Key)
		if t == nil {
			t = s.newTask(taskid.Key(strings.Clone(string(d.Key))), s.tasks.hash(d.Key), s.anyPool)
		}
		if c != nil {
			t.addWant(c)
		}
		told := false
		for _, id := range d.Workers {
			w := s.Worker(id)
			switch {
			case w == nil:
			case t.state == Memory:
				s.addReplica(t, w)
				s.copied(t.key, w)
			default:
				told = true
				if d.NBytes >= 0 {
					t.nbytes = d.NBytes
				}
				t.kind = s.typeOf(d.TypeName, d.Type, t.kind)
				s.adopt(t, w, d.NBytes)
			}
		}
		switch {
		case len(t.holders) == 0 && len(t.spec) == 0: // its workers have gone meanwhile
			s.recommend(t, toForgotten)
		case t.state == Released:
			s.recommend(t, toWaiting)
		case !told && c != nil:
			s.report(c, t)
		}
	}
}

// ScatterTargets chooses workers for n new pieces of data: in turn, each as often as it has threads. They are
// appended to dst; among the workers given, or all. Nothing is appended if none is running.
func (s *State) ScatterTargets(dst []WorkerID, n int, among []WorkerID) []WorkerID {
	var pool []*Worker
	for w := range s.Workers() {
		if w.running() && (len(among) == 0 || slices.Contains(among, w.id)) {
			pool = append(pool, w)
		}
	}
	if len(pool) == 0 {
		return dst
	}
	slices.SortStableFunc(pool, func(a, b *Worker) int {
		switch {
		case a.nbytes < b.nbytes:
			return -1
		case a.nbytes > b.nbytes:
			return 1
		}
		return 0
	})
	for i := 0; n > 0; i = (i + 1) % len(pool) {
		for range min(n, pool[i].threads) {
			dst = append(dst, pool[i].id)
			n--
		}
	}
	return dst
}

// setRestrictions changes where tasks may run that have not been sent to a worker.
func (s *State) setRestrictions(ev *SetRestrictions) {
	for _, k := range ev.Keys {
		t := s.tasks.get(k)
		if t == nil {
			continue
		}
		var a Annotations
		if t.notes != nil {
			a = t.notes.Annotations
		}
		a.Workers = make([]string, len(ev.Workers))
		for i, w := range ev.Workers {
			a.Workers[i] = strings.Clone(w)
		}
		s.renote(t, &a)
	}
}

func (s *State) hold(ev *Hold) {
	s.held = ev.On
	if !s.held {
		s.expectNoMore()
		s.retryStranded(func(*Task) bool { return true })
	}
}

// tick lets time pass.
func (s *State) tick() {
	s.timeouts()
	s.forgetDeparted("")
	if len(s.requests) > 0 {
		s.stepRequests()
	}
	if s.now.Sub(s.lastSteal) >= s.cfg.StealInterval {
		s.lastSteal = s.now
		s.evacuate()
		s.balance()
	}
}

// timeouts errs tasks that have been without a worker for too long.
func (s *State) timeouts() {
	limit := int64(s.cfg.NoWorkersTimeout)
	if limit <= 0 {
		return
	}
	var late []*Task
	for t := s.stranded.head; t != nil && s.nowNs-t.since > limit; t = t.next {
		late = append(late, t)
	}
	for _, p := range s.queues() {
		if p.queue.n > 0 && p.emptySince >= 0 && s.nowNs-p.emptySince > limit {
			p.queue.each(func(t *Task) { late = append(late, t) })
		}
	}
	for _, t := range late {
		switch {
		case t.state != NoWorkerState && t.state != Queued: // it went with another one
		case s.numRunning == 0:
			s.fail(t, noWorkers(t, s.cfg.NoWorkersTimeout))
		default:
			s.fail(t, noValidWorker(t, t.why(), s.cfg.NoWorkersTimeout))
		}
	}
}
