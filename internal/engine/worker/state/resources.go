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

// resourceSet is the worker's resources, and the sets of them that tasks need.
type resourceSet struct {
	supplies []supply
	sets     []*needSet
	scratch  []need
}

// needSet is a set of needed resources, with the tasks that are ready but for them. Tasks
// with equal needs share one, so that those who wait for one resource do not hold up others.
type needSet struct {
	needs []need
	ready heap
	users int // tasks that point to it
}

type need struct {
	supply int // index in resourceSet.supplies
	amount float64
}

// setFor finds or makes the set for a task's resources, nil if there are none. The error
// names a resource that the worker does not have.
func (rs *resourceSet) setFor(resources []Resource) (*needSet, error) {
	if len(resources) == 0 {
		return nil, nil
	}
	needs := rs.scratch[:0]
	for _, r := range resources {
		i := slices.IndexFunc(rs.supplies, func(sup supply) bool { return sup.name == r.Name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("the task needs the resource %q, and this worker has none: "+
				"start workers with --resources %q, or mend the task's resources",
				r.Name, fmt.Sprintf("%s=%g", r.Name, r.Amount))
		case r.Amount > rs.supplies[i].total || r.Amount < 0:
			return nil, fmt.Errorf("the task needs %g of the resource %q, and this worker has %g", r.Amount, r.Name,
				rs.supplies[i].total)
		}
		needs = append(needs, need{i, r.Amount})
	}
	slices.SortFunc(needs, func(a, b need) int { return a.supply - b.supply })
	rs.scratch = needs
	for _, set := range rs.sets {
		if slices.Equal(set.needs, needs) {
			return set, nil
		}
	}
	set := &needSet{needs: slices.Clone(needs)}
	rs.sets = append(rs.sets, set)
	return set, nil
}

// use makes a task a user of a set, or of none, instead of the one that it used.
func (rs *resourceSet) use(t *Task, set *needSet) {
	if set != nil {
		set.users++
	}
	rs.unuse(t.needs)
	t.needs = set
}

// unuse takes a user from a set, which goes with the last.
func (rs *resourceSet) unuse(set *needSet) {
	if set == nil {
		return
	}
	if set.users--; set.users == 0 {
		rs.sets = slices.DeleteFunc(rs.sets, func(x *needSet) bool { return x == set })
	}
}

// satisfied reports whether what a set needs is available.
func (rs *resourceSet) satisfied(set *needSet) bool {
	for _, n := range set.needs {
		if rs.supplies[n.supply].available < n.amount-1e-9 { // fractions do not add up exactly
			return false
		}
	}
	return true
}

// take changes what is available by what a set needs, sign times.
func (rs *resourceSet) take(set *needSet, sign float64) {
	if set == nil {
		return
	}
	for _, n := range set.needs {
		rs.supplies[n.supply].available -= sign * n.amount
	}
}

// setTotals changes the totals. What runs keeps what it has.
func (rs *resourceSet) setTotals(resources []Resource) {
	for i := range rs.supplies {
		sup := &rs.supplies[i]
		sup.available -= sup.total
		sup.total = 0
	}
	for _, r := range resources {
		i := slices.IndexFunc(rs.supplies, func(sup supply) bool { return sup.name == r.Name })
		if i < 0 {
			rs.supplies = append(rs.supplies, supply{name: strings.Clone(r.Name)})
			i = len(rs.supplies) - 1
		}
		rs.supplies[i].total += r.Amount
		rs.supplies[i].available += r.Amount
	}
}

// Resources are what the worker has, and Available what of it no task holds.
func (s *State) Resources() (total, available []Resource) {
	for _, sup := range s.resources.supplies {
		total = append(total, Resource{sup.name, sup.total})
		available = append(available, Resource{sup.name, sup.available})
	}
	return total, available
}
