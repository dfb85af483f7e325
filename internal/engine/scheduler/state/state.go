package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/taskid"
)

// State is the whole scheduler but its network. One goroutine owns it.
type State struct {
	cfg     Config
	unknown float64 // seconds of a task of which nothing is known

	tasks     table
	running   runTable
	groups    map[string]*Group
	groupList []*Group // in an order that depends on events only
	lastGroup *Group   // that was asked for; nil when it is gone
	prefixes  map[string]*Prefix
	types     map[string]*ResultType
	counts    [numTaskStates]int

	workers     []*Worker // by id; nil where one has left
	freeWorkers []WorkerID
	leftWorkers []WorkerID // free from the next event on
	byAddress   map[string]*Worker
	byName      map[string]*Worker
	numWorkers  int
	numRunning  int
	threads     int    // of all workers
	workersGen  uint64 // changes when a restriction may mean other workers

	clients     []*Client // by id; nil where one has left
	freeClients []ClientID
	leftClients []ClientID
	byClient    map[string]*Client

	pools    map[poolKey]*pool
	poolList []*pool // all but anyPool, in the order of their making
	anyPool  *pool   // of tasks that need nothing, and of workers that have nothing
	notes    map[string]*notes
	stranded list // tasks without a worker, oldest first

	bandwidth   float64
	netBytes    int64     // of all workers
	processing  []*Prefix // of tasks that are processing
	runs        int64     // low half of the latest run id
	assignments uint64
	generation  float64
	lastGraph   time.Time
	graphSeen   bool
	held        bool         // see Hold
	expected    []taskid.Key // see ExpectData; some may have come
	departed    []departed   // workers that may come back, in the order of their removal
	awaited     []awaitedData

	steals    uint64
	inFlight  int
	lastSteal time.Time
	requests  []*request

	// Of the event that is being applied:
	out    *Actions
	now    time.Time
	nowNs  int64
	events uint64
	cause  cause
	stack  []*Task   // with recommendations
	box    []*Worker // with keys to be freed
	walk   uint64
	gone   []*Task // forgotten in this event
	spare  []*Task // to be used again
	chunk  []Task  // not used yet
	log    transitionLog

	transitions uint64
	added       uint64
	removed     uint64
	scratch     scratch
}

// New makes an empty state.
func New(cfg Config) *State {
	cfg.setDefaults()
	s := &State{
		cfg:       cfg,
		unknown:   cfg.UnknownTaskDuration.Seconds(),
		bandwidth: cfg.Bandwidth,
		tasks:     newTable(),
		groups:    map[string]*Group{},
		prefixes:  map[string]*Prefix{},
		types:     map[string]*ResultType{},
		byAddress: map[string]*Worker{},
		byName:    map[string]*Worker{},
		byClient:  map[string]*Client{},
		pools:     map[poolKey]*pool{},
		notes:     map[string]*notes{},
		anyPool:   &pool{emptySince: -1},
	}
	s.anyPool.by, s.anyPool.takes = []*pool{s.anyPool}, []*pool{s.anyPool}
	if cfg.TransitionLog > 0 {
		s.log.limit = cfg.TransitionLog
	}
	s.addClient(&AddClient{Name: "fire-and-forget"})
	return s
}

// Apply takes an event in and writes to out what is to be done about it, in order. now must not go back; the
// state has no other clock. What out held before is gone.
func (s *State) Apply(now time.Time, ev Event, out *Actions) {
	out.Reset()
	s.begin(now, out)
	s.handle(ev)
	s.drain()
	s.fillSlots()
	s.flush()
	if len(s.requests) > 0 {
		s.requests = slices.DeleteFunc(s.requests, func(r *request) bool { return r.done })
	}
	if s.cfg.Validate {
		s.check(ev)
	}
}
