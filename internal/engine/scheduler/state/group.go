package state

import (
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
	"go.millstream.dev/internal/task/taskid/keysplit"
)

// Prefix are the tasks that call the same function, by their keys. Durations are measured per prefix.
type Prefix struct {
	// Tag is for the user of the State, which may set it at any time; 0 for a new Prefix.
	Tag uint32

	name       string
	average    float64 // seconds of a task; negative if unknown
	longest    float64 // seconds of the longest running task
	groups     int
	processing int // tasks, without long-running
	place      int // in ledger.processing
	suspicious int64
	fast       bool // too short for stealing, by the configuration
	finished   int64
	total      float64 // seconds of all finished runs
	nbytes     float64 // average size of a result
}

// Name returns the name of the prefix.
func (p *Prefix) Name() string { return p.name }

// Duration returns the average duration of a task; ok is false until one has finished.
func (p *Prefix) Duration() (d time.Duration, ok bool) {
	return time.Duration(p.average * 1e9), p.average >= 0
}

// Finished returns the number of reported runs, and their total time.
func (p *Prefix) Finished() (runs int64, total time.Duration) {
	return p.finished, time.Duration(p.total * 1e9)
}

// Suspicious returns the number of workers that were lost while they processed a task of the prefix.
func (p *Prefix) Suspicious() int64 { return p.suspicious }

// Group are the tasks of one collection: those whose keys share the part before the index. Whether tasks are root-ish
// is decided for a whole group.
type Group struct {
	name   string
	prefix *Prefix
	states [numTaskStates]int
	total  int      // number of tasks that were ever in it
	deps   []*Group // of dependencies of its tasks; no more than queueable needs
	nbytes int64
	place  int // in groupSet.list
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.name }

// Prefix returns the prefix of the group.
func (g *Group) Prefix() *Prefix { return g.prefix }

// Count returns the number of tasks of the group in a state.
func (g *Group) Count(s TaskState) int { return g.states[s] }

// NBytes returns the size of all results of the group in memory, each counted once.
func (g *Group) NBytes() int64 { return g.nbytes }

// IsDone reports whether no task of the group is waiting, queued or processing.
func (g *Group) IsDone() bool {
	return g.states[Waiting]+g.states[Queued]+g.states[NoWorkerState]+g.states[Processing] == 0
}

// groupSet are all groups with tasks, and the measured prefixes and types of results.
type groupSet struct {
	byName    map[string]*Group
	list      []*Group // in an order that depends on events only
	last      *Group   // most recent result of groupSet.of; nil if removed
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

// of returns the group of a key and creates it if necessary.
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

// prefix returns the prefix with a name and creates it if necessary.
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

// mostPrefixes is the number of prefixes without tasks that are kept.
const mostPrefixes = 10_000

// drop removes a group without tasks.
func (gs *groupSet) drop(g *Group) {
	delete(gs.byName, g.name)
	if gs.last == g {
		gs.last = nil
	}
	last := gs.list[len(gs.list)-1]
	gs.list[g.place] = last
	last.place = g.place
	gs.list = gs.list[:len(gs.list)-1]
	// Measurements of a prefix are kept, unless there are so many prefixes that they cannot be functions.
	if g.prefix.groups--; g.prefix.groups == 0 && len(gs.prefixes) > mostPrefixes {
		delete(gs.prefixes, g.prefix.name)
	}
}

// dependOn records that a task of g depends on one of d. It keeps one more than queueable needs.
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

// running records the run time so far of a task that is still running.
func (p *Prefix) running(seconds float64) {
	p.longest = max(p.longest, seconds)
	if seconds > 2*p.average {
		p.average = -1
	}
}

// resultType returns the shared description of a type. The number of types is bounded, because peers choose their
// names.
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
