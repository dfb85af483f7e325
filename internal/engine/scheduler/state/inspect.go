package state

import (
	"iter"
	"math"
	"time"

	"go.millstream.dev/internal/taskid"
)

// Task returns the task with a key, nil if there is none.
func (s *State) Task(k taskid.Key) *Task { return s.tasks.get(k) }

// TaskBytes is Task for a key that is there as bytes.
func (s *State) TaskBytes(k []byte) *Task { return s.tasks.get(taskid.Key(k)) }

// NumTasks is how many tasks there are.
func (s *State) NumTasks() int { return s.tasks.n }

// Tasks are all tasks, in no order: for people, never for decisions.
func (s *State) Tasks() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for i := range s.tasks.slots {
			if t := s.tasks.slots[i].t; t != nil && !yield(t) {
				return
			}
		}
	}
}

// Count is how many tasks are in a state. For Forgotten it is how many have been forgotten so far.
func (s *State) Count(st TaskState) int { return s.counts[st] }

// Worker returns the worker with an id, nil if there is none.
func (s *State) Worker(id WorkerID) *Worker {
	if id < 0 || int(id) >= len(s.workers) {
		return nil
	}
	return s.workers[id]
}

// WorkerByAddress returns the worker with an address, nil if there is none.
func (s *State) WorkerByAddress(address string) *Worker { return s.byAddress[address] }

// WorkerByName returns the worker with a name, nil if there is none.
func (s *State) WorkerByName(name string) *Worker { return s.byName[name] }

// FindWorker returns the worker that an address or a name means, nil if there is none.
func (s *State) FindWorker(addressOrName string) *Worker {
	if w := s.byAddress[addressOrName]; w != nil {
		return w
	}
	return s.byName[addressOrName]
}

// NumWorkers is how many workers there are, and how many of them take tasks.
func (s *State) NumWorkers() (all, running int) { return s.numWorkers, s.numRunning }

// Workers are all workers by their ids.
func (s *State) Workers() iter.Seq[*Worker] {
	return func(yield func(*Worker) bool) {
		for _, w := range s.workers {
			if w != nil && !yield(w) {
				return
			}
		}
	}
}

// TotalThreads of all workers.
func (s *State) TotalThreads() int { return s.threads }

// Client returns the client with an id, nil if there is none.
func (s *State) Client(id ClientID) *Client {
	if id < 0 || int(id) >= len(s.clients) {
		return nil
	}
	return s.clients[id]
}

// ClientByName returns the client with a name, nil if there is none.
func (s *State) ClientByName(name string) *Client { return s.byClient[name] }

// Clients are all clients by their ids, FireAndForget first.
func (s *State) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, c := range s.clients {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// Groups are all groups that have tasks.
func (s *State) Groups() iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for _, g := range s.groupList {
			if !yield(g) {
				return
			}
		}
	}
}

// Prefixes are all prefixes that have been seen, in no order.
func (s *State) Prefixes() iter.Seq[*Prefix] {
	return func(yield func(*Prefix) bool) {
		for _, p := range s.prefixes {
			if !yield(p) {
				return
			}
		}
	}
}

// Occupancy is how long a worker will be busy with what it has, in seconds.
func (s *State) Occupancy(w *Worker) float64 {
	sum := w.othersTime + float64(w.netBytes)/s.bandwidth
	for i := range w.counts {
		sum += float64(w.counts[i].n) * s.duration(w.counts[i].p)
	}
	return sum
}

// TotalOccupancy is the sum over all workers, in seconds.
func (s *State) TotalOccupancy() float64 {
	sum := float64(s.netBytes) / s.bandwidth
	for _, p := range s.processing {
		sum += float64(p.processing) * s.duration(p)
	}
	return sum
}

// Idle tells that nothing is on its way.
func (s *State) Idle() bool {
	return s.counts[Waiting]+s.counts[Queued]+s.counts[NoWorkerState]+s.counts[Processing] == 0
}

// Unoccupied tells that a worker has less to do than it could: Dask's idle workers.
func (s *State) Unoccupied(w *Worker) bool {
	return w.running() && s.unoccupied(w, s.Occupancy(w), w.processing, s.TotalOccupancy())
}

func (s *State) unoccupied(w *Worker, occupancy float64, processing int, total float64) bool {
	return processing < w.threads || occupancy < float64(w.threads)*(total/float64(s.threads))/2
}

// Saturated tells that a worker has much more to do than the others.
func (s *State) Saturated(w *Worker) bool {
	return w.running() && s.saturated(w, s.Occupancy(w), s.TotalOccupancy())
}

func (s *State) saturated(w *Worker, occupancy, total float64) bool {
	p, n := float64(w.processing), float64(w.threads)
	if w.processing <= w.threads || s.unoccupied(w, occupancy, w.processing, total) {
		return false
	}
	pending := occupancy * (p - n) / (p * n)
	return pending > 0.4 && pending > 1.9*total/float64(s.threads)
}

// QueuedOccupancy is how long all tasks that are queued or without a worker will take, in seconds, guessed
// from a hundred of them.
func (s *State) QueuedOccupancy() float64 {
	const sample = 100
	sum, n := 0.0, 0
	for _, p := range s.queues() {
		for _, t := range p.queue.row[p.queue.first:] {
			if n < sample && t != nil {
				sum += s.duration(t.group.prefix)
				n++
			}
			if n >= sample {
				break
			}
		}
	}
	for t := s.stranded.head; t != nil && n < sample; t = t.next {
		sum += s.duration(t.group.prefix)
		n++
	}
	if ready := s.counts[Queued] + s.counts[NoWorkerState]; n > 0 && ready > n {
		sum *= float64(ready) / float64(n)
	}
	return sum
}

// AdaptiveTarget is how many workers there should be so that what is there takes so long: Dask's
// adaptive_target. 0 means Dask's default, 5 s.
func (s *State) AdaptiveTarget(target time.Duration) int {
	if target <= 0 {
		target = 5 * time.Second
	}
	ready := s.counts[Queued] + s.counts[NoWorkerState]
	cpu := int(math.Ceil((s.TotalOccupancy() + s.QueuedOccupancy()) / target.Seconds()))
	// A few long tasks are no reason to ask for many cores.
	cpu = min(cpu, ready+s.counts[Processing])
	if s.numWorkers > 0 {
		cpu = int(math.Ceil(float64(cpu) / float64(s.threads) * float64(s.numWorkers)))
	} else if ready > 0 {
		cpu = max(cpu, 1)
	}
	var limit, used int64
	for w := range s.Workers() {
		limit += w.memoryLimit
		used += w.nbytes
	}
	if limit > 0 && float64(used) > 0.6*float64(limit) {
		cpu = max(cpu, 2*s.numWorkers)
	}
	if cpu >= s.numWorkers {
		return cpu
	}
	return s.numWorkers - len(s.WorkersToClose(0, 0, 0))
}

// Counters are sums since the start.
type Counters struct {
	// Transitions of tasks, Events applied, WorkersAdded and WorkersRemoved, Steals requested.
	Transitions, Events, WorkersAdded, WorkersRemoved, Steals uint64
}

// Counters returns the sums since the start.
func (s *State) Counters() Counters {
	return Counters{s.transitions, s.events, s.added, s.removed, s.steals}
}

// Bandwidth between workers that the state reckons with, in bytes per second.
func (s *State) Bandwidth() float64 { return s.bandwidth }

// queues are the pools that may have queued tasks.
func (s *State) queues() []*pool {
	s.scratch.pools = append(append(s.scratch.pools[:0], s.anyPool), s.poolList...)
	return s.scratch.pools
}
