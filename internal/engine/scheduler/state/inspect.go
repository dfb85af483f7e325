package state

import (
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Task returns the task with a key, nil if there is none.
func (s *State) Task(k taskid.Key) *Task { return s.tasks.Get(k) }

// TaskBytes returns the task with a key in bytes, nil if there is none.
func (s *State) TaskBytes(k []byte) *Task { return s.tasks.Get(taskid.Key(k)) }

// NumTasks returns the number of tasks.
func (s *State) NumTasks() int { return s.tasks.Len() }

// Tasks returns all tasks in random order: for display, never for decisions.
func (s *State) Tasks() iter.Seq[*Task] { return s.tasks.All() }

// Walk calls f for the tasks in at most n slots of the table from slot from on, and returns the next slot; 0 after the
// last. All slots together have all tasks, and those that are added or forgotten between two calls may be missed or
// visited twice: for display, never for decisions.
func Walk(s *State, from, n int, f func(*Task)) (next int) {
	end := min(from+n, s.tasks.Slots())
	for i := from; i < end; i++ {
		if t, ok := s.tasks.At(i); ok {
			f(t)
		}
	}
	if end == s.tasks.Slots() {
		return 0
	}
	return end
}

// Count returns the number of tasks in a state; for Forgotten the number of tasks that have been forgotten so far.
func (s *State) Count(st TaskState) int { return s.counts[st] }

// Worker returns the worker with an ID, nil if there is none.
func (s *State) Worker(id WorkerID) *Worker { return s.workers.get(id) }

// WorkerByAddress returns the worker with an address, nil if there is none.
func (s *State) WorkerByAddress(address string) *Worker { return s.workers.byAddress[address] }

// WorkerByName returns the worker with a name, nil if there is none.
func (s *State) WorkerByName(name string) *Worker { return s.workers.byName[name] }

// FindWorker returns the worker with an address or a name, nil if there is none.
func (s *State) FindWorker(addressOrName string) *Worker {
	if w := s.workers.byAddress[addressOrName]; w != nil {
		return w
	}
	return s.workers.byName[addressOrName]
}

// NumWorkers returns the number of workers, and the number of running ones.
func (s *State) NumWorkers() (all, running int) { return s.workers.n, s.workers.running }

// Workers returns all workers by ID.
func (s *State) Workers() iter.Seq[*Worker] { return s.workers.each() }

// TotalThreads returns the number of threads of all workers.
func (s *State) TotalThreads() int { return s.workers.threads }

// Client returns the client with an ID, nil if there is none.
func (s *State) Client(id ClientID) *Client { return s.clients.get(id) }

// ClientByName returns the client with a name, nil if there is none.
func (s *State) ClientByName(name string) *Client { return s.clients.byName[name] }

// Clients returns all clients by ID, FireAndForget first.
func (s *State) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, c := range s.clients.all {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// Groups returns all groups with tasks.
func (s *State) Groups() iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for _, g := range s.groups.list {
			if !yield(g) {
				return
			}
		}
	}
}

// Prefixes returns all known prefixes, in random order.
func (s *State) Prefixes() iter.Seq[*Prefix] {
	return func(yield func(*Prefix) bool) {
		for _, p := range s.groups.prefixes {
			if !yield(p) {
				return
			}
		}
	}
}

// Occupancy returns the estimated time that a worker needs for its tasks, in seconds.
func (s *State) Occupancy(w *Worker) float64 { return s.ledger.occupancy(w) }

// TotalOccupancy returns the occupancy of all workers, in seconds.
func (s *State) TotalOccupancy() float64 { return s.ledger.total() }

// Idle reports whether no task is in play.
func (s *State) Idle() bool {
	return s.counts[Waiting]+s.counts[Queued]+s.counts[NoWorkerState]+s.counts[Processing] == 0
}

// Unoccupied reports whether a worker has less work than it could run: idle workers in Dask.
func (s *State) Unoccupied(w *Worker) bool {
	return w.running() && unoccupied(s, w, s.Occupancy(w), w.processing, s.TotalOccupancy())
}

func unoccupied(s *State, w *Worker, occupancy float64, processing int, total float64) bool {
	return processing < w.threads || occupancy < float64(w.threads)*(total/float64(s.workers.threads))/2
}

// Saturated reports whether a worker has much more work than the others.
func (s *State) Saturated(w *Worker) bool {
	return w.running() && saturated(s, w, s.Occupancy(w), s.TotalOccupancy())
}

func saturated(s *State, w *Worker, occupancy, total float64) bool {
	p, n := float64(w.processing), float64(w.threads)
	if w.processing <= w.threads || unoccupied(s, w, occupancy, w.processing, total) {
		return false
	}
	pending := occupancy * (p - n) / (p * n)
	return pending > 0.4 && pending > 1.9*total/float64(s.workers.threads)
}

// QueuedOccupancy returns the estimated time of all tasks that are queued or without a worker, in seconds, from a
// sample of a hundred.
func (s *State) QueuedOccupancy() float64 {
	const sample = 100
	sum, n := 0.0, 0
	for _, p := range s.pools.all() {
		for _, t := range p.queue.row[p.queue.first:] {
			if n < sample && t != nil {
				sum += s.ledger.duration(t.group.prefix)
				n++
			}
			if n >= sample {
				break
			}
		}
	}
	for t := s.stranded.head; t != nil && n < sample; t = t.next {
		sum += s.ledger.duration(t.group.prefix)
		n++
	}
	if ready := s.counts[Queued] + s.counts[NoWorkerState]; n > 0 && ready > n {
		sum *= float64(ready) / float64(n)
	}
	return sum
}

// AdaptiveTarget returns the number of workers with which the present work takes the target time: Dask's
// adaptive_target. 0 means Dask's default, 5 s.
func (s *State) AdaptiveTarget(target time.Duration) int {
	if target <= 0 {
		target = 5 * time.Second
	}
	ready := s.counts[Queued] + s.counts[NoWorkerState]
	cpu := int(math.Ceil((s.TotalOccupancy() + s.QueuedOccupancy()) / target.Seconds()))
	// A few long tasks do not justify many cores.
	cpu = min(cpu, ready+s.counts[Processing])
	if s.workers.n > 0 {
		cpu = int(math.Ceil(float64(cpu) / float64(s.workers.threads) * float64(s.workers.n)))
	} else if ready > 0 {
		cpu = max(cpu, 1)
	}
	var limit, used int64
	for w := range s.Workers() {
		limit += w.memoryLimit
		used += w.nbytes
	}
	if limit > 0 && float64(used) > 0.6*float64(limit) {
		cpu = max(cpu, 2*s.workers.n)
	}
	if cpu >= s.workers.n {
		return cpu
	}
	return s.workers.n - len(s.WorkersToClose(0, 0, 0))
}

// Counters are sums since the start.
type Counters struct {
	// Transitions are those of tasks, Events applied events, WorkersAdded and WorkersRemoved workers, Steals steal
	// requests.
	Transitions, Events, WorkersAdded, WorkersRemoved, Steals uint64
}

// Counters returns the sums since the start.
func (s *State) Counters() Counters {
	return Counters{s.transitions, s.events, s.workers.added, s.workers.removed, s.steals.asked}
}

// Bandwidth returns the estimated bandwidth between workers, in bytes per second.
func (s *State) Bandwidth() float64 { return s.ledger.bandwidth }

// WorkersToClose proposes workers to close: idle ones whose data the others can hold ratio times over (Dask's
// workers_to_close and its memory_ratio); 0 means the default, 2. n > 0 requests that number, n = 0 as many as
// possible; at least minimum workers stay. Workers that a function of allowed rejects are not proposed.
func (s *State) WorkersToClose(n, minimum int, ratio float64, allowed ...func(WorkerID) bool) []WorkerID {
	if ratio == 0 {
		ratio = 2
	}
	if n <= 0 && s.counts[Queued]+s.counts[NoWorkerState] > 0 {
		return nil
	}
	var limit, used int64
	all := make([]*Worker, 0, s.workers.n)
	for w := range s.Workers() {
		limit += w.memoryLimit
		used += w.nbytes
		all = append(all, w)
	}
	sort.SliceStable(all, func(i, j int) bool {
		if a, b := all[i].processing > 0, all[j].processing > 0; a != b {
			return b
		}
		return all[i].nbytes < all[j].nbytes
	})
	var ids []WorkerID
	remaining := len(all)
	for _, w := range all {
		if remaining <= minimum || n > 0 && len(ids) >= n {
			break
		}
		if slices.ContainsFunc(allowed, func(f func(WorkerID) bool) bool { return !f(w.id) }) {
			continue
		}
		if n <= 0 {
			limit -= w.memoryLimit
			if w.processing > 0 || used > 0 && float64(limit) < ratio*float64(used) {
				break
			}
		}
		ids = append(ids, w.id)
		remaining--
	}
	return ids
}
