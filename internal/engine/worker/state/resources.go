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

// resourceSet is the set of the worker's resources, and of the combinations that tasks need.
type resourceSet struct {
	supplies []supply
	sets     []*needSet
	scratch  []need
}

// needSet is a combination of needed resources, with the tasks that are ready except for them. Tasks with equal needs
// share one, so that tasks that wait for one resource do not block others.
type needSet struct {
	needs []need
	ready heap
	users int // number of tasks that refer to it
}

type need struct {
	supply int // index in resourceSet.supplies
	amount float64
}

// setFor returns the needSet of a task's resources, nil if there are none. It returns an error for a resource that the
// worker does not have.
func (rs *resourceSet) setFor(resources []Resource) (*needSet, error) {
	if len(resources) == 0 {
		return nil, nil
	}
	needs := rs.scratch[:0]
	for _, r := range resources {
		i := slices.IndexFunc(rs.supplies, func(sup supply) bool { return sup.name == r.Name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("task needs resource %q, which this worker does not have; "+
				"start workers with --resources %q, or change the resources of the task",
				r.Name, fmt.Sprintf("%s=%g", r.Name, r.Amount))
		case r.Amount > rs.supplies[i].total || r.Amount < 0:
			return nil, fmt.Errorf("task needs %g of resource %q, this worker has %g", r.Amount, r.Name,
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

// setNeeds sets the needSet of a task, which may be nil.
func (rs *resourceSet) setNeeds(t *Task, set *needSet) {
	if set != nil {
		set.users++
	}
	rs.removeUser(t.needs)
	t.needs = set
}

// removeUser removes a user from a needSet, which is removed with the last one.
func (rs *resourceSet) removeUser(set *needSet) {
	if set == nil {
		return
	}
	if set.users--; set.users == 0 {
		rs.sets = slices.DeleteFunc(rs.sets, func(x *needSet) bool { return x == set })
	}
}

// satisfied reports whether the resources of a needSet are available.
func (rs *resourceSet) satisfied(set *needSet) bool {
	for _, n := range set.needs {
		if rs.supplies[n.supply].available < n.amount-1e-9 { // sums of fractions are not exact
			return false
		}
	}
	return true
}

// take subtracts the amounts of a needSet from the available ones, sign times.
func (rs *resourceSet) take(set *needSet, sign float64) {
	if set == nil {
		return
	}
	for _, n := range set.needs {
		rs.supplies[n.supply].available -= sign * n.amount
	}
}

// setTotals sets the totals. Running tasks keep their resources.
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

// Resources returns the resources of the worker, and the parts that no task holds.
func (s *State) Resources() (total, available []Resource) {
	for _, sup := range s.resources.supplies {
		total = append(total, Resource{sup.name, sup.total})
		available = append(available, Resource{sup.name, sup.available})
	}
	return total, available
}
