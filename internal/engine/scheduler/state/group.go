package state

import (
	"time"

	"go.millstream.dev/internal/taskid"
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

// groupOf returns the group of a key, new if need be.
func (s *State) groupOf(k taskid.Key) *Group {
	name := groupName(k)
	if g := s.lastGroup; g != nil && g.name == name {
		return g
	}
	if g := s.groups[name]; g != nil {
		s.lastGroup = g
		return g
	}
	name = cloneString(name)
	g := &Group{name: name, prefix: s.prefixOf(prefixName(name)), place: len(s.groupList)}
	g.prefix.groups++
	s.groups[name] = g
	s.groupList = append(s.groupList, g)
	return g
}

func (s *State) prefixOf(name string) *Prefix {
	if p := s.prefixes[name]; p != nil {
		return p
	}
	name = cloneString(name)
	p := &Prefix{name: name, average: -1, longest: -1}
	if d, ok := s.cfg.DefaultTaskDurations[name]; ok {
		p.average = d.Seconds()
		p.fast = d <= time.Millisecond
	}
	s.prefixes[name] = p
	return p
}

// mostPrefixes is how many prefixes without tasks are remembered.
const mostPrefixes = 10_000

// dropGroup forgets a group that has no tasks left.
func (s *State) dropGroup(g *Group) {
	delete(s.groups, g.name)
	if s.lastGroup == g {
		s.lastGroup = nil
	}
	last := s.groupList[len(s.groupList)-1]
	s.groupList[g.place] = last
	last.place = g.place
	s.groupList = s.groupList[:len(s.groupList)-1]
	// What was learnt about a prefix is kept, unless there are so many that they cannot be functions.
	if g.prefix.groups--; g.prefix.groups == 0 && len(s.prefixes) > mostPrefixes {
		delete(s.prefixes, g.prefix.name)
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

// duration is the guess in seconds for a task of the prefix.
func (s *State) duration(p *Prefix) float64 {
	switch {
	case p.average >= 0:
		return p.average
	case p.longest > 0:
		return 2 * p.longest
	}
	return s.unknown
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
