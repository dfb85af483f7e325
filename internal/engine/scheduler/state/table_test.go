package state

import "testing"

// A table that was large must shrink.
func TestTableShrinks(t *testing.T) {
	r := newRig(Config{})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 10_000)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	large := r.tasks.Slots()
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if n := r.tasks.Slots(); n > large/8 {
		t.Errorf("slots of an empty table: got %d, the full one had %d", n, large)
	}
	for k := range r.Tasks() {
		t.Errorf("%s: not removed", k.Key())
	}
}
