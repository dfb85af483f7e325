package tracker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/wire"
)

// modelScheduler models the state of a scheduler about a client: it applies the messages of the client in order.
type modelScheduler struct {
	known  map[string]bool // keys with a task
	wanted map[string]bool
}

func (m *modelScheduler) apply(t *testing.T, messages []wire.Dict) {
	t.Helper()
	for _, d := range messages {
		switch op := d.GetString("op"); op {
		case "update-graph":
			nodes, _ := nodesOf(t, d)
			for _, n := range nodes {
				m.known[n[:len(n)-len("=s")]] = true
			}
			for _, key := range keyList(t, d) {
				m.wanted[key] = true
			}
		case "client-desires-keys":
			for _, key := range keyList(t, d) {
				m.wanted[key] = true
			}
		case "client-releases-keys", "cancel-keys":
			for _, key := range keyList(t, d) {
				delete(m.wanted, key)
				delete(m.known, key)
			}
		case "report-key", "heartbeat-client":
		default:
			t.Fatalf("unknown op %s", op)
		}
	}
}

// TestModel makes random calls and messages, sometimes loses the scheduler, and compares after each delivery: the
// scheduler has as wanted exactly the keys that futures hold and that were not canceled, and each future has the status
// of the last event.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

type modelKey struct {
	handles []*Handle
	state   *State
	status  Status
}

func runModel(t *testing.T, r *rand.Rand) {
	c := empty(t)
	server := &modelScheduler{known: map[string]bool{}, wanted: map[string]bool{}}
	keys := map[string]*modelKey{}
	watched := map[*Watch][]string{}
	pick := func() string { return fmt.Sprint("k", r.IntN(8)) }
	hold := func(name string, s *State) *modelKey {
		mk := keys[name]
		if mk == nil {
			mk = &modelKey{state: s}
			keys[name] = mk
		}
		if mk.state != s {
			t.Fatalf("key %s has two states, want one", name)
		}
		mk.handles = append(mk.handles, NewHandle(s))
		return mk
	}
	for range 400 {
		name := pick()
		mk := keys[name]
		switch r.IntN(12) {
		case 0, 1:
			s, err := c.Submit(k(name), []byte("s"), nil, &taskgraph.Annotations{}, Options{FIFO: "1s"})
			if err != nil {
				t.Fatal(err)
			}
			if mk = hold(name, s); mk.status == Canceled {
				mk.status = Pending
			}
		case 2:
			g, handles := NewGraph(Options{}, false), make([]Handle, 2)
			other := pick()
			var all task.Key
			var ends []int32
			for _, n := range []string{name, other} {
				g.Writer().Spec(k(n), []byte("s"), nil, taskgraph.None, taskgraph.None)
				all += k(n)
				ends = append(ends, int32(len(all)))
			}
			if err := c.SubmitSlab(g, all, ends, handles); err != nil {
				t.Fatal(err)
			}
			for i, n := range []string{name, other} {
				if mk = hold(n, handles[i].State()); mk.status == Canceled {
					mk.status = Pending
				}
			}
		case 3, 4: // releases of one future
			if mk == nil {
				break
			}
			h := mk.handles[0]
			mk.handles = mk.handles[1:]
			c.Release(h)
			if len(mk.handles) == 0 {
				delete(keys, name)
			}
		case 5:
			if mk != nil {
				if err := c.Cancel([]*State{mk.state}, false); err != nil {
					t.Fatal(err)
				}
				mk.status = Canceled
			}
		case 6, 7: // a task ends, if the scheduler has it
			server.apply(t, sent(t, c))
			if mk != nil && server.known[name] && (mk.status == Pending || mk.status == Lost) {
				receive(t, c, wire.NewDict("op", "key-in-memory", "key", name, "workers", []any{"w"}))
				mk.status = Finished
			}
		case 8:
			if mk != nil && mk.status == Finished {
				receive(t, c, wire.NewDict("op", "lost-data", "key", name))
				mk.status = Lost
			}
		case 9:
			if mk != nil && (mk.status == Pending || mk.status == Lost) {
				receive(t, c, wire.NewDict("op", "task-erred", "key", name, "exception", "no", "traceback", nil))
				mk.status = Failed
			}
		case 10: // the scheduler is lost, with or without the last message
			items, _ := c.Take()
			if r.IntN(2) == 0 {
				server.known, server.wanted = map[string]bool{}, map[string]bool{}
			}
			c.Resume(Identity{ID: "S", Epoch: r.Int64()}, c.Disconnected(items))
		case 11:
			if mk != nil {
				watched[c.Watch([]*State{mk.state})] = []string{name}
			}
		}
		for name, mk := range keys {
			if got := c.Status(mk.state); got != mk.status {
				t.Fatalf("key %s has status %d, want %d", name, got, mk.status)
			}
			if err := c.KeyErr(mk.state); (err != nil) != (mk.status == Failed || mk.status == Canceled) {
				t.Fatalf("key %s of status %d has error %v", name, mk.status, err)
			}
		}
		if r.IntN(4) == 0 {
			server.apply(t, sent(t, c))
			for name, mk := range keys {
				if pending := mk.status == Pending || mk.status == Lost; pending && !server.wanted[name] {
					t.Fatalf("the scheduler does not want %s of status %d, which a future holds", name, mk.status)
				}
			}
			for name := range server.wanted {
				if keys[name] == nil {
					t.Fatalf("the scheduler wants %s, which no future holds", name)
				}
			}
		}
	}
	for w := range watched {
		w.Stop()
	}
	for _, mk := range keys {
		for _, h := range mk.handles {
			c.Release(h)
		}
	}
	server.apply(t, sent(t, c))
	if c.keys.Len() != 0 || len(server.wanted) != 0 || len(c.graphs) > 0 && !allEnded(c) {
		t.Errorf("%d keys, %d wanted, %d graphs are left, want none", c.keys.Len(), len(server.wanted), len(c.graphs))
	}
}

// allEnded reports whether no kept graph has a task that has not ended.
func allEnded(c *Tracker) bool {
	for g := range c.graphs {
		if g.left > 0 {
			return false
		}
	}
	return true
}
