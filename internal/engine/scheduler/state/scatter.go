package state

import (
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// apply registers scattered data.
func (ev *UpdateData) apply(s *State) {
	c := s.Client(ev.Client)
	for i := range ev.Data {
		d := &ev.Data[i]
		t := s.tasks.Get(d.Key)
		if t == nil {
			t = s.newTask(taskid.Key(strings.Clone(string(d.Key))), s.tasks.Hash(d.Key), s.pools.any)
		}
		if c != nil {
			t.addWant(c)
		}
		reported := false
		for _, id := range d.Workers {
			w := s.Worker(id)
			switch {
			case w == nil:
			case t.state == Memory:
				s.ledger.addReplica(t, w)
				completeCopy(s, t.key, w)
			default:
				reported = true
				if d.NBytes >= 0 {
					t.nbytes = d.NBytes
				}
				t.kind = s.groups.resultType(d.TypeName, d.Type, t.kind)
				adopt(s, t, w, d.NBytes)
			}
		}
		switch {
		case len(t.holders) == 0 && len(t.spec) == 0: // its workers were removed meanwhile
			s.recommend(t, toForgotten)
		case t.state == Released:
			s.recommend(t, toWaiting)
		case !reported && c != nil:
			s.out.report(c, t)
		}
	}
}

// ScatterTargets chooses workers for n new pieces of data: in turn, each as often as it has threads. They are appended
// to dst; among the given workers, or all. Nothing is appended if none is running.
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

// apply creates tasks of scattered data that workers held before the restart of the scheduler. Such a task waits for a
// worker that announces the data (AddKeys.Adopt); it has no dependencies and no spec. Data that was not announced when
// Hold ends is lost.
func (ev *ExpectData) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	var unknown []taskid.Key
	for _, k := range ev.Keys {
		hash := s.tasks.Hash(k)
		t := s.tasks.Find(k, hash)
		if t == nil {
			k = taskid.Key(strings.Clone(string(k)))
			if !s.held {
				unknown = append(unknown, k)
				continue
			}
			t = s.newTask(k, hash, s.pools.any)
			t.addWant(c)
			s.setState(t, Waiting)
			s.away.expected = append(s.away.expected, k)
			continue
		}
		desire(s, t, c)
		if t.state == Released {
			s.recommend(t, toWaiting)
		}
	}
	s.out.cancelKeys(c, unknown, "lost data",
		"the data was scattered before the restart of the scheduler, and no worker has announced it")
}

// endExpect drops expected data that no worker has announced.
func endExpect(s *State) {
	for _, k := range s.away.expected {
		if t := s.tasks.Get(k); t != nil && t.expecting() {
			s.recommend(t, toForgotten)
		}
	}
	s.away.expected = nil
}

// departed is a removed worker that may return: the results that it held and the tasks that it ran. When it is added
// again, it may announce those and no others, see mayAdopt.
type departed struct {
	token   string
	address string
	at      int64 // time of the removal, in nanoseconds
	keys    []taskid.Key
}

// awaitedData is scattered data whose last holder was removed and may return.
type awaitedData struct {
	token string
	key   taskid.Key
	until int64 // in nanoseconds
}

const (
	// departedTime bounds how long a removed worker is kept.
	departedTime = 10 * time.Minute
	// maxDepartedKeys bounds the total number of keys of removed workers that are kept: those of the latest.
	maxDepartedKeys = 1 << 20
)

// departedWorkers are the removed workers that may return, and the data that only they hold.
type departedWorkers struct {
	workers  []departed // in the order of their removal
	data     []awaitedData
	expected []taskid.Key // see ExpectData; some may have been announced
}

func (ev *ForgetDeparted) apply(s *State) {
	if ev.Token != "" {
		forgetDeparted(s, ev.Token)
	}
}

// add keeps a worker that is being removed, with the tasks that it runs.
func (aw *departedWorkers) add(w *Worker, processing []*Task, now int64) {
	if w.token == "" {
		return
	}
	d := departed{token: w.token, address: w.address, at: now}
	d.keys = make([]taskid.Key, 0, min(len(w.holds)+len(processing)+len(w.former), maxDepartedKeys))
	add := func(k taskid.Key) {
		if len(d.keys) < maxDepartedKeys {
			d.keys = append(d.keys, k)
		}
	}
	for i := range w.holds {
		add(w.holds[i].t.key)
	}
	for _, t := range processing {
		add(t.key)
	}
	for k := range w.former {
		add(k)
	}
	w.former = nil
	aw.workers = append(aw.workers, d)
	total := 0
	for i := len(aw.workers) - 1; i >= 0; i-- {
		if total += len(aw.workers[i].keys); total > maxDepartedKeys {
			aw.workers = slices.Delete(aw.workers, 0, i+1)
			break
		}
	}
}

// restore finds the results and tasks that a worker had before it was removed.
func (aw *departedWorkers) restore(w *Worker, now int64) {
	if w.token == "" {
		return
	}
	for i := len(aw.workers) - 1; i >= 0; i-- {
		if d := &aw.workers[i]; d.token == w.token && d.address == w.address {
			w.former = make(map[taskid.Key]struct{}, len(d.keys))
			for _, k := range d.keys {
				w.former[k] = struct{}{}
			}
			aw.workers = slices.Delete(aw.workers, i, i+1)
			break
		}
	}
	for i := range aw.data {
		if a := &aw.data[i]; a.token == w.token { // not announced yet
			a.until = max(a.until, now+int64(announceTime))
		}
	}
}

// announceTime is how long a worker that has returned may take to announce its results.
const announceTime = 5 * time.Second

// awaitReturn keeps scattered data whose last holder was removed: it is accepted from that worker when it returns, and
// lost after the wait.
func awaitReturn(s *State, t *Task, w *Worker, wait time.Duration) {
	s.ledger.dropReplica(t, w)
	s.setState(t, Waiting)
	s.out.notifyAll(LostData, t)
	s.unready(t)
	s.away.data = append(s.away.data, awaitedData{w.token, t.key, s.nowNs + int64(wait)})
}

// forgetDeparted ends the wait for workers: for the one with a token, and for those whose time is over.
func forgetDeparted(s *State, token string) {
	if len(s.away.workers) > 0 {
		s.away.workers = slices.DeleteFunc(s.away.workers, func(d departed) bool {
			return token != "" && d.token == token || s.nowNs-d.at > int64(departedTime)
		})
	}
	if len(s.away.data) == 0 {
		return
	}
	s.away.data = slices.DeleteFunc(s.away.data, func(a awaitedData) bool {
		t := s.tasks.Get(a.key)
		if t == nil || !t.expecting() {
			return true
		}
		if (token == "" || a.token != token) && s.nowNs < a.until {
			return false
		}
		if !s.held || !slices.Contains(s.away.expected, a.key) {
			s.recommend(t, toForgotten)
		}
		return true
	})
}
