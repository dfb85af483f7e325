package state

import (
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state/internal/keysplit"
	"go.millstream.dev/internal/task/taskid"
)

// Prefix is the tasks that call the same function, as far as their keys show: what durations are known for.
type Prefix struct {
	name       string
	average    float64 // seconds that a task takes; negative when unknown
	longest    float64 // seconds that one that still runs has taken
	groups     int
	processing int // tasks, without long-running
	place      int // among those of which tasks are processing
	suspicious int64
	fast       bool // by the configuration so short that stealing is not worth it
	finished   int64
	total      float64 // seconds of all finished runs
	nbytes     float64 // of a result, on average
}

// Name of the prefix.
func (p *Prefix) Name() string { return p.name }

// Duration is the average duration of a task; ok is false while none has finished.
func (p *Prefix) Duration() (d time.Duration, ok bool) {
	return time.Duration(p.average * 1e9), p.average >= 0
}

// Finished is how many runs have been reported, and the time that they took together.
func (p *Prefix) Finished() (runs int64, total time.Duration) {
	return p.finished, time.Duration(p.total * 1e9)
}

// Suspicious is how often a worker died while it processed a task of the prefix.
func (p *Prefix) Suspicious() int64 { return p.suspicious }

// Group is the tasks of one collection: those whose keys share the part before the index. Whether tasks are
// root-ish is decided for a whole group.
type Group struct {
	name   string
	prefix *Prefix
	states [numTaskStates]int
	total  int      // tasks that were ever in it
	deps   []*Group // that its tasks depend on; no more than matter for rootish
	nbytes int64
	place  int // among the state's groups
}

// Name of the group.
func (g *Group) Name() string { return g.name }

// Prefix of the group.
func (g *Group) Prefix() *Prefix { return g.prefix }

// Count is how many tasks of the group are in a state.
func (g *Group) Count(s TaskState) int { return g.states[s] }

// NBytes is the size of all results that tasks of the group have in memory, each counted once.
func (g *Group) NBytes() int64 { return g.nbytes }

// IsDone reports whether no task of the group is waiting, queued or processing.
func (g *Group) IsDone() bool {
	return g.states[Waiting]+g.states[Queued]+g.states[NoWorkerState]+g.states[Processing] == 0
}

// groupSet is all groups that have tasks, and what has been learnt about prefixes and types of results.
type groupSet struct {
	byName    map[string]*Group
	list      []*Group // in an order that depends on events only
	last      *Group   // that was asked for; nil when it is gone
	prefixes  map[string]*Prefix
	durations map[string]time.Duration // of prefixes that have not run, by the configuration
	types     map[string]*ResultType
}

func newGroupSet(durations map[string]time.Duration) groupSet {
	return groupSet{
		byName: map[string]*Group{}, prefixes: map[string]*Prefix{}, durations: durations,
		types: map[string]*ResultType{},
	}
}

// of returns the group of a key, new if need be.
func (gs *groupSet) of(k taskid.Key) *Group {
	name := keysplit.Group(k)
	if g := gs.last; g != nil && g.name == name {
		return g
	}
	if g := gs.byName[name]; g != nil {
		gs.last = g
		return g
	}
	name = strings.Clone(name)
	g := &Group{name: name, prefix: gs.prefix(keysplit.Prefix(name)), place: len(gs.list)}
	g.prefix.groups++
	gs.byName[name] = g
	gs.list = append(gs.list, g)
	return g
}

// prefix returns the prefix with a name, new if need be.
func (gs *groupSet) prefix(name string) *Prefix {
	if p := gs.prefixes[name]; p != nil {
		return p
	}
	name = strings.Clone(name)
	p := &Prefix{name: name, average: -1, longest: -1}
	if d, ok := gs.durations[name]; ok {
		p.average = d.Seconds()
		p.fast = d <= time.Millisecond
	}
	gs.prefixes[name] = p
	return p
}

// mostPrefixes is how many prefixes without tasks are remembered.
const mostPrefixes = 10_000

// drop forgets a group that has no tasks left.
func (gs *groupSet) drop(g *Group) {
	delete(gs.byName, g.name)
	if gs.last == g {
		gs.last = nil
	}
	last := gs.list[len(gs.list)-1]
	gs.list[g.place] = last
	last.place = g.place
	gs.list = gs.list[:len(gs.list)-1]
	// What was learnt about a prefix is kept, unless there are so many that they cannot be functions.
	if g.prefix.groups--; g.prefix.groups == 0 && len(gs.prefixes) > mostPrefixes {
		delete(gs.prefixes, g.prefix.name)
	}
}

// dependOn notes that a task of g depends on one of d. It remembers one more than rootish has to know.
func (g *Group) dependOn(d *Group, limit int) {
	if len(g.deps) > 0 && g.deps[len(g.deps)-1] == d || len(g.deps) >= limit {
		return
	}
	for _, x := range g.deps {
		if x == d {
			return
		}
	}
	g.deps = append(g.deps, d)
}

func (p *Prefix) learn(seconds float64, nbytes int64) {
	p.finished++
	p.nbytes += (float64(nbytes) - p.nbytes) / 8
	p.total += seconds
	if p.average < 0 {
		p.average = seconds
	} else {
		p.average = (p.average + seconds) / 2
	}
}

// running notes that a task has run for so long and is not done.
func (p *Prefix) running(seconds float64) {
	p.longest = max(p.longest, seconds)
	if seconds > 2*p.average {
		p.average = -1
	}
}

// typeOf returns the shared description of a type. It grows with the number of types, not of tasks; a peer that
// invents types is stopped.
func (gs *groupSet) resultType(name string, pickle []byte, last *ResultType) *ResultType {
	const most = 10_000
	if last != nil && last.Name == name {
		return last
	}
	r := gs.types[name]
	if r == nil {
		if len(gs.types) >= most {
			return last
		}
		r = &ResultType{Name: strings.Clone(name), Pickle: append([]byte(nil), pickle...)}
		gs.types[r.Name] = r
	}
	return r
}
