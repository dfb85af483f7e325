package state

import "time"

// State is the state machine of a worker. The package documentation describes its ownership. Parts with invariants of
// their own have their own types; State connects them by the states of tasks.
type State struct {
	cfg      Config
	running  bool
	detached bool // no scheduler

	tasks     taskTable
	peers     peerSet
	resources resourceSet
	transfers transfers

	// A task is in at most one of these lists and heaps: Task.pos is the position in it.
	ready       heap
	waiting     list
	missing     list
	executing   list // those that count against Threads, including canceled ones
	longRunning list
	inMemory    list
	fetchCount  int

	generation  int64
	nbytes      int64
	executed    uint64
	transitions uint64
	log         ring

	// These fields belong to the event that is being applied.
	now     int64
	ev      Event
	out     *Actions
	recs    []*Task // stack of tasks with a recommendation
	added   []*Task // replicas to announce at the end
	orphans []*Task // results to announce for the scheduler to adopt
	lost    []*Task // newly missing

	mark        uint32
	taskScratch []*Task
	onMove      func(from, to TaskState) // for tests, with Config.Validate
}

// New returns the state of a worker that has no tasks and is running.
func New(cfg Config) *State {
	s := &State{cfg: cfg.withDefaults(), running: true}
	s.peers.byAddress = map[string]*Peer{}
	s.transfers.limits = &s.cfg
	s.log.limit = s.cfg.LogLength
	s.SetAddress(cfg.Address)
	s.resources.setTotals(cfg.Resources)
	return s
}

// SetAddress sets Config.Address, which is often known only when the worker listens. Call it before the first event.
func (s *State) SetAddress(address string) {
	s.cfg.Address = address
	s.peers.address, s.peers.host = address, hostOf(address)
}

// Apply applies an event and replaces the content of out by the resulting actions. It panics with an *InvalidTransition
// or, with Config.Validate, an *InvalidState if the machine is broken.
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

// unstarted reports whether a state is that of an assigned task that has not started.
func unstarted(st TaskState) bool { return st == Waiting || st == Ready || st == Constrained }

// addAction adds an action about a task.
func (s *State) addAction(kind ActionKind, t *Task) *Action {
	a := s.out.add(kind)
	a.Task, a.Key, a.RunID, a.Stimulus = t, t.key, t.runID, s.ev.stimulus()
	return a
}

// report adds a message to the scheduler; it returns nil if there is no scheduler now.
func (s *State) report(kind ActionKind, t *Task) *Action {
	if s.detached {
		return nil
	}
	return s.addAction(kind, t)
}

// reportList adds a message to the scheduler about several tasks.
func (s *State) reportList(kind ActionKind, tasks []*Task) *Action {
	if s.detached || len(tasks) == 0 {
		return nil
	}
	a := s.out.add(kind)
	a.Tasks, a.Stimulus = s.out.keep(tasks), s.ev.stimulus()
	return a
}

func (s *State) requestRefresh(tasks []*Task) { s.reportList(SendRequestRefresh, tasks) }

// recommend sets the recommended next state of a task. It replaces an earlier recommendation.
func (s *State) recommend(t *Task, finish TaskState) {
	switch {
	case t.rec == noState:
		s.recs = append(s.recs, t)
	case t.rec == Memory && (finish == Fetch || finish == Released):
		return // it has just arrived, and stays until the scheduler frees it
	}
	t.rec = finish
}

// drain carries out all recommendations.
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

// announce reports new replicas and missing keys to the scheduler.
func (s *State) announce() {
	s.reportList(SendAddKeys, filterState(s.added, Memory))
	s.added = reset(s.added)
	if a := s.reportList(SendAddKeys, filterState(s.orphans, Memory)); a != nil {
		a.Adopt = true
	}
	s.orphans = reset(s.orphans)
	lost := filterState(s.lost, Missing)
	for _, t := range lost {
		t.asked = true
	}
	s.requestRefresh(lost)
	s.lost = reset(s.lost)
}

// filterState returns the tasks that are in a state.
func filterState(list []*Task, st TaskState) []*Task {
	n := 0
	for _, t := range list {
		if t.state == st {
			list[n] = t
			n++
		}
	}
	return list[:n]
}

// reset empties a list and keeps its memory.
func reset(list []*Task) []*Task {
	clear(list)
	return list[:0]
}
