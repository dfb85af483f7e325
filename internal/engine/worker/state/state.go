package state

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/taskid"
)

// State is a worker's state machine. See the package for who may touch it.
type State struct {
	cfg  Config
	host string

	tasks    map[taskid.Key]*Task
	peers    map[string]*Peer
	running  bool
	detached bool // no scheduler

	// A task is in at most one of these lists and heaps, which Task.pos relies on.
	ready       heap
	waiting     list
	missing     list
	executing   list // those that count against Threads, cancelled ones too
	longRunning list
	inMemory    list
	flights     int // transfers under way

	askable    []*Peer // from which something is needed, and that are neither busy nor asked
	fetchCount int
	inBytes    int64 // under way
	inTotal    uint64

	supplies []supply
	needSets []*needSet

	generation  int64
	nbytes      int64
	executed    uint64
	transitions uint64
	counts      [numStates]int
	log         ring

	// Of the event that is being applied.
	now     int64
	ev      Event
	out     *Actions
	recs    []*Task // stack of tasks with a recommendation
	added   []*Task // to be announced at the end
	orphans []*Task // to be announced as well, for the scheduler to adopt
	lost    []*Task // newly missing

	dead, free  []*Task
	mark        uint32
	peerScratch []*Peer
	taskScratch []*Task
	needScratch []need
	candidates  []candidate
}

// New makes the state of a worker that has nothing to do yet and is running.
func New(cfg Config) *State {
	cfg = cfg.withDefaults()
	s := &State{cfg: cfg, host: hostOf(cfg.Address), tasks: map[taskid.Key]*Task{}, peers: map[string]*Peer{}, running: true}
	s.log.limit = cfg.LogLength
	s.setResources(cfg.Resources)
	return s
}

// SetAddress sets Config.Address, which is often known only after the worker listens. It is
// to be called before the first event.
func (s *State) SetAddress(address string) {
	s.cfg.Address, s.host = address, hostOf(address)
}

// Apply takes an event in and says in out what is to be done about it; what out held before
// is gone. It panics with an *InvalidTransition or, with Config.Validate, an *InvalidState if
// the machine is broken.
func (s *State) Apply(now time.Time, ev Event, out *Actions) {
	out.Reset()
	s.reclaim()
	s.now, s.ev, s.out = now.UnixNano(), ev, out
	s.handle(ev)
	s.settle()
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

// handle turns an event into recommendations.
func (s *State) handle(ev Event) {
	switch ev := ev.(type) {
	case *ExecuteSuccess:
		s.executeSuccess(ev)
	case *ComputeTask:
		s.computeTask(ev)
	case *FreeKeys:
		s.freeKeys(ev)
	case *GatherSuccess:
		s.gatherSuccess(ev)
	case *ExecuteFailure:
		s.executeFailure(ev)
	case *Reschedule:
		s.reschedule(ev)
	case *Secede:
		if t := s.tasks[ev.Key]; t != nil && t.running() {
			s.secede(t, ev.Duration)
		}
	case *GatherBusy:
		s.gatherBusy(ev)
	case *GatherNetworkFailure:
		s.gatherNetworkFailure(ev)
	case *GatherFailure:
		s.gatherFailure(ev)
	case *RetryBusy:
		if p := s.peers[ev.Peer]; p != nil {
			p.busy = false
			s.enlist(p)
			s.dropPeer(p)
		}
	case *RemovePeer:
		if p := s.peers[ev.Peer]; p != nil {
			s.losePeer(p)
		}
	case *RemoveReplicas:
		s.removeReplicas(ev)
	case *AcquireReplicas:
		s.acquireReplicas(ev)
	case *RefreshWhoHas:
		s.refreshWhoHas(ev)
	case *FindMissing:
		s.requestRefresh(s.missing.tasks)
	case *StealRequest:
		s.stealRequest(ev)
	case *CancelCompute:
		if t := s.tasks[ev.Key]; t != nil && unstarted(t.state) {
			s.recommend(t, Released)
		}
	case *UpdateData:
		s.updateData(ev)
	case *DataLost:
		if t := s.tasks[ev.Key]; t != nil && t.state == Memory {
			if !s.cfg.AnnounceReleases {
				s.tell(SendReleaseData, t)
			}
			s.recommend(t, Released)
		}
	case *Pause:
		s.running = false
	case *Unpause:
		s.running = true
	case *SetResources:
		s.setResources(ev.Resources)
	case *SchedulerLost:
		s.schedulerLost()
	case *Reattach:
		s.reattach()
	default:
		panic(fmt.Sprintf("worker/state: unknown event %T", ev))
	}
}

// unstarted are the states of a task that was ordered and has not started.
func unstarted(st TaskState) bool { return st == Waiting || st == Ready || st == Constrained }

// say makes an action about a task.
func (s *State) say(kind ActionKind, t *Task) *Action {
	a := s.out.add(kind)
	a.Task, a.Key, a.RunID, a.Stimulus = t, t.key, t.runID, s.ev.stimulus()
	return a
}

// tell is say for messages to the scheduler: nil if there is none now.
func (s *State) tell(kind ActionKind, t *Task) *Action {
	if s.detached {
		return nil
	}
	return s.say(kind, t)
}

// tellList makes a message to the scheduler about several tasks.
func (s *State) tellList(kind ActionKind, tasks []*Task) *Action {
	if s.detached || len(tasks) == 0 {
		return nil
	}
	a := s.out.add(kind)
	a.Tasks, a.Stimulus = s.out.keep(tasks), s.ev.stimulus()
	return a
}

func (s *State) requestRefresh(tasks []*Task) { s.tellList(SendRequestRefresh, tasks) }

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

// settle does what is recommended until nothing is.
func (s *State) settle() {
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

// announce tells the scheduler what has arrived here and what cannot be found.
func (s *State) announce() {
	s.tellList(SendAddKeys, still(s.added, Memory))
	s.added = emptied(s.added)
	if a := s.tellList(SendAddKeys, still(s.orphans, Memory)); a != nil {
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
