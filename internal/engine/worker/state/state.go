package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// State is a worker's state machine. See the package for who may touch it. What has invariants of its own is a part
// with its own type; State has what connects them: the states of tasks.
type State struct {
	cfg      Config
	running  bool
	detached bool // no scheduler

	tasks     taskTable
	peers     peerSet
	resources resourceSet
	transfers transfers

	// A task is in at most one of these lists and heaps, which Task.pos relies on.
	ready       heap
	waiting     list
	missing     list
	executing   list // those that count against Threads, cancelled ones too
	longRunning list
	inMemory    list
	fetchCount  int

	generation  int64
	nbytes      int64
	executed    uint64
	transitions uint64
	log         ring

	// Of the event that is being applied.
	now     int64
	ev      Event
	out     *Actions
	recs    []*Task // stack of tasks with a recommendation
	added   []*Task // to be announced at the end
	orphans []*Task // to be announced as well, for the scheduler to adopt
	lost    []*Task // newly missing

	mark        uint32
	taskScratch []*Task
	onMove      func(from, to TaskState) // for tests, with Config.Validate
}

// New makes the state of a worker that has nothing to do yet and is running.
func New(cfg Config) *State {
	s := &State{cfg: cfg.withDefaults(), running: true}
	s.tasks.byKey = map[taskid.Key]*Task{}
	s.peers.byAddress = map[string]*Peer{}
	s.transfers.limits = &s.cfg
	s.log.limit = s.cfg.LogLength
	s.SetAddress(cfg.Address)
	s.resources.setTotals(cfg.Resources)
	return s
}

// SetAddress sets Config.Address, which is often known only after the worker listens. It is
// to be called before the first event.
func (s *State) SetAddress(address string) {
	s.cfg.Address = address
	s.peers.address, s.peers.host = address, hostOf(address)
}

// Apply takes an event in and says in out what is to be done about it; what out held before
// is gone. It panics with an *InvalidTransition or, with Config.Validate, an *InvalidState if
// the machine is broken.
func (s *State) Apply(now time.Time, ev Event, out *Actions) {
	if ev == nil {
		panic("worker/state: unknown event: nil")
	}
	out.Reset()
	s.tasks.reclaim()
	s.now, s.ev, s.out = now.UnixNano(), ev, out
	ev.apply(s)
	s.drain()
	s.ensureComputing()
	s.ensureCommunicating()
	s.announce()
	s.ev, s.out = nil, nil
	if s.cfg.Validate {
		if err := s.Check(); err != nil {
			panic(err)
		}
	}
}

// unstarted are the states of a task that was ordered and has not started.
func unstarted(st TaskState) bool { return st == Waiting || st == Ready || st == Constrained }

// act makes an action about a task.
func (s *State) act(kind ActionKind, t *Task) *Action {
	a := s.out.add(kind)
	a.Task, a.Key, a.RunID, a.Stimulus = t, t.key, t.runID, s.ev.stimulus()
	return a
}

// report is act for messages to the scheduler: nil if there is none now.
func (s *State) report(kind ActionKind, t *Task) *Action {
	if s.detached {
		return nil
	}
	return s.act(kind, t)
}

// reportList makes a message to the scheduler about several tasks.
func (s *State) reportList(kind ActionKind, tasks []*Task) *Action {
	if s.detached || len(tasks) == 0 {
		return nil
	}
	a := s.out.add(kind)
	a.Tasks, a.Stimulus = s.out.keep(tasks), s.ev.stimulus()
	return a
}

func (s *State) requestRefresh(tasks []*Task) { s.reportList(SendRequestRefresh, tasks) }

// recommend says which state a task is to go to, instead of what was said before.
func (s *State) recommend(t *Task, finish TaskState) {
	switch {
	case t.rec == noState:
		s.recs = append(s.recs, t)
	case t.rec == Memory && (finish == Fetch || finish == Released):
		return // it has just come, and stays until the scheduler frees it
	}
	t.rec = finish
}

// drain does what is recommended until nothing is.
func (s *State) drain() {
	for n := len(s.recs); n > 0; n = len(s.recs) {
		t := s.recs[n-1]
		s.recs[n-1] = nil
		s.recs = s.recs[:n-1]
		if finish := t.rec; finish != noState {
			t.rec = noState
			s.transition(t, finish)
		}
	}
}

// announce reports to the scheduler what has arrived here and what cannot be found.
func (s *State) announce() {
	s.reportList(SendAddKeys, still(s.added, Memory))
	s.added = emptied(s.added)
	if a := s.reportList(SendAddKeys, still(s.orphans, Memory)); a != nil {
		a.Adopt = true
	}
	s.orphans = emptied(s.orphans)
	lost := still(s.lost, Missing)
	for _, t := range lost {
		t.asked = true
	}
	s.requestRefresh(lost)
	s.lost = emptied(s.lost)
}

// still keeps the tasks that are in a state.
func still(list []*Task, st TaskState) []*Task {
	n := 0
	for _, t := range list {
		if t.state == st {
			list[n] = t
			n++
		}
	}
	return list[:n]
}

func emptied(list []*Task) []*Task {
	clear(list)
	return list[:0]
}
