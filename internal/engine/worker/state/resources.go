package state

import (
	"fmt"
	"slices"
	"strings"
)

// supply is a resource of the worker.
type supply struct {
	name             string
	total, available float64
}

// needSet is a set of needed resources, with the tasks that are ready but for them. Tasks
// with equal needs share one, so that those who wait for one resource do not hold up others.
type needSet struct {
	needs []need
	ready heap
	users int // tasks that point to it
}

type need struct {
	supply int // index in State.supplies
	amount float64
}

// needSetFor finds or makes the set for a task's resources, nil if there are none. The error
// names a resource that the worker does not have.
func (s *State) needSetFor(resources []Resource) (*needSet, error) {
	if len(resources) == 0 {
		return nil, nil
	}
	needs := s.needScratch[:0]
	for _, r := range resources {
		i := slices.IndexFunc(s.supplies, func(sup supply) bool { return sup.name == r.Name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("the task needs the resource %q, and this worker has none: start workers with --resources %q, or mend the task's resources",
				r.Name, fmt.Sprintf("%s=%g", r.Name, r.Amount))
		case r.Amount > s.supplies[i].total || r.Amount < 0:
			return nil, fmt.Errorf("the task needs %g of the resource %q, and this worker has %g", r.Amount, r.Name, s.supplies[i].total)
		}
		needs = append(needs, need{i, r.Amount})
	}
	slices.SortFunc(needs, func(a, b need) int { return a.supply - b.supply })
	s.needScratch = needs
	for _, set := range s.needSets {
		if slices.Equal(set.needs, needs) {
			return set, nil
		}
	}
	set := &needSet{needs: slices.Clone(needs)}
	s.needSets = append(s.needSets, set)
	return set, nil
}

// useNeeds makes a task a user of a set, or of none, instead of the one that it used.
func (s *State) useNeeds(t *Task, set *needSet) {
	if set != nil {
		set.users++
	}
	s.unuse(t.needs)
	t.needs = set
}

func (s *State) unuse(set *needSet) {
	if set == nil {
		return
	}
	if set.users--; set.users == 0 {
		s.needSets = slices.DeleteFunc(s.needSets, func(x *needSet) bool { return x == set })
	}
}

func (s *State) satisfied(set *needSet) bool {
	for _, n := range set.needs {
		if s.supplies[n.supply].available < n.amount-1e-9 { // fractions do not add up exactly
			return false
		}
	}
	return true
}

// take changes what is available by what a set needs, sign times.
func (s *State) take(set *needSet, sign float64) {
	if set == nil {
		return
	}
	for _, n := range set.needs {
		s.supplies[n.supply].available -= sign * n.amount
	}
}

// setResources changes the totals. What runs keeps what it has.
func (s *State) setResources(resources []Resource) {
	for i := range s.supplies {
		sup := &s.supplies[i]
		sup.available -= sup.total
		sup.total = 0
	}
	for _, r := range resources {
		i := slices.IndexFunc(s.supplies, func(sup supply) bool { return sup.name == r.Name })
		if i < 0 {
			s.supplies = append(s.supplies, supply{name: strings.Clone(r.Name)})
			i = len(s.supplies) - 1
		}
		s.supplies[i].total += r.Amount
		s.supplies[i].available += r.Amount
	}
}

// Resources are what the worker has, and Available what of it no task holds.
func (s *State) Resources() (total, available []Resource) {
	for _, sup := range s.supplies {
		total = append(total, Resource{sup.name, sup.total})
		available = append(available, Resource{sup.name, sup.available})
	}
	return total, available
}
