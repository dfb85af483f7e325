package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Client is one client, or a part of the scheduler that wants keys (variables, queues, published datasets).
// The State owns it; others read it, until the next Apply.
type Client struct {
	id   ClientID
	name string
	// Data is the server's own: the state does not look at it.
	Data any

	wants   []wanted
	removed bool
}

// wanted is a task that a client wants: place is the index in the task's list.
type wanted struct {
	t     *Task
	place int32
}

// ID of the client.
func (c *Client) ID() ClientID { return c.id }

// Name of the client.
func (c *Client) Name() string { return c.name }

// NumWanted is how many keys the client wants, and Wanted the i-th.
func (c *Client) NumWanted() int { return len(c.wants) }

// Wanted is the i-th task that the client wants.
func (c *Client) Wanted(i int) *Task { return c.wants[i].t }

// clientSet is all clients, by id and name. Ids of clients that have left are given out again from the next event on.
type clientSet struct {
	all        []*Client // by id; nil where one has left
	free, left []ClientID
	byName     map[string]*Client
}

func newClientSet() clientSet { return clientSet{byName: map[string]*Client{}} }

// get returns the client with an id, nil if there is none.
func (cs *clientSet) get(id ClientID) *Client {
	if id < 0 || int(id) >= len(cs.all) {
		return nil
	}
	return cs.all[id]
}

// add makes the client with a name that is not taken.
func (cs *clientSet) add(name string) *Client {
	c := &Client{name: strings.Clone(name)}
	if n := len(cs.free); n > 0 {
		c.id = cs.free[n-1]
		cs.free = cs.free[:n-1]
		cs.all[c.id] = c
	} else {
		c.id = ClientID(len(cs.all))
		cs.all = append(cs.all, c)
	}
	cs.byName[c.name] = c
	return c
}

// remove takes out a client that wants nothing.
func (cs *clientSet) remove(c *Client) {
	c.removed = true
	delete(cs.byName, c.name)
	cs.all[c.id] = nil
	cs.left = append(cs.left, c.id)
}

// reclaim makes the ids of clients that left during the last event free.
func (cs *clientSet) reclaim() {
	if len(cs.left) > 0 {
		cs.free = append(cs.free, cs.left...)
		cs.left = cs.left[:0]
	}
}

// addWant notes that a client wants a task. It tells whether that is new.
func (t *Task) addWant(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c == c {
			return false
		}
	}
	if len(t.wants) == 0 {
		t.wants = t.wants1[:0]
	}
	t.wants = append(t.wants, want{c, int32(len(c.wants))})
	c.wants = append(c.wants, wanted{t, int32(len(t.wants) - 1)})
	return true
}

// dropWant notes that a client no longer wants a task.
func (t *Task) dropWant(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c == c {
			t.dropWantAt(i)
			return true
		}
	}
	return false
}

func (t *Task) dropWantAt(i int) {
	w := t.wants[i]
	c := w.c
	last := len(c.wants) - 1
	if moved := c.wants[last]; int(w.place) != last {
		c.wants[w.place] = moved
		moved.t.wants[moved.place].place = w.place
	}
	c.wants[last] = wanted{}
	c.wants = c.wants[:last]

	last = len(t.wants) - 1
	if moved := t.wants[last]; i != last {
		t.wants[i] = moved
		moved.c.wants[moved.place].place = int32(i)
	}
	t.wants[last] = want{}
	t.wants = t.wants[:last]
}

func (ev *AddClient) apply(s *State) {
	c := s.clients.byName[ev.Name]
	if c == nil {
		c = s.clients.add(ev.Name)
	}
	c.Data = ev.Data
	ev.Client = c.id
}

func (ev *RemoveClient) apply(s *State) {
	if c := s.Client(ev.Client); c != nil && c.id != FireAndForget {
		releaseAll(s, c)
		s.clients.remove(c)
	}
}

// releaseAll takes a client from everything it wants.
func releaseAll(s *State, c *Client) {
	for n := len(c.wants); n > 0; n = len(c.wants) {
		unwant(s, c.wants[n-1].t, c)
	}
}

// unwant takes a client from those who want a task.
func unwant(s *State, t *Task, c *Client) {
	if t.dropWant(c) && !t.needed() {
		s.recommend(t, toUnneeded)
	}
}

// desire adds a client to those who want a task, and tells it if the task is done.
func desire(s *State, t *Task, c *Client) {
	t.addWant(c)
	s.out.report(c, t)
	if t.state == Memory || t.state == Erred {
		s.ranOnce(t)
	}
}

func (ev *ClientDesires) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	var unknown []taskid.Key
	for _, k := range ev.Keys {
		t := s.tasks.get(k)
		if t == nil {
			unknown = append(unknown, taskid.Key(strings.Clone(string(k))))
			continue
		}
		desire(s, t, c)
		if t.state == Released {
			s.recommend(t, toWaiting)
		}
	}
	s.out.cancelled(c, unknown, "unknown to the scheduler", "")
}

func (ev *ClientReleases) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	for _, k := range ev.Keys {
		if t := s.tasks.get(k); t != nil {
			unwant(s, t, c)
		}
	}
}

func (ev *ReportKey) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	if t := s.tasks.get(ev.Key); t != nil {
		s.out.report(c, t)
	} else {
		s.out.cancelled(c, []taskid.Key{taskid.Key(strings.Clone(string(ev.Key)))}, "unknown to the scheduler", "")
	}
}

// cancelKeys releases keys and all that depend on them, as far as only this client wants them.
func (ev *CancelKeys) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	s.walk++
	var found []*Task
	visit := func(t *Task) {
		if t.mark != s.walk && (ev.Force || t.wantedOnlyBy(c)) {
			t.mark = s.walk
			found = append(found, t)
		}
	}
	for _, k := range ev.Keys {
		if t := s.tasks.get(k); t != nil {
			visit(t)
		}
	}
	for i := 0; i < len(found); i++ {
		for j := range found[i].dependents {
			visit(found[i].dependents[j].t)
		}
	}
	told := map[*Client][]taskid.Key{} // looked up only; the order is that of clients
	clients := []*Client{c}
	for _, t := range found {
		for n := len(t.wants); n > 0; n = len(t.wants) {
			who := t.wants[n-1].c
			if !slices.Contains(clients, who) {
				clients = append(clients, who)
			}
			told[who] = append(told[who], t.key)
			unwant(s, t, who)
		}
	}
	for _, who := range clients {
		s.out.cancelled(who, told[who], strings.Clone(ev.Reason), strings.Clone(ev.Msg))
	}
}

// wantedOnlyBy tells that no other client wants the task.
func (t *Task) wantedOnlyBy(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c != c {
			return false
		}
	}
	return true
}

// retry runs erred tasks again: those that failed themselves first, what depends on them follows.
func (ev *Retry) apply(s *State) {
	ev.Retried = nil
	s.walk++
	var found []*Task
	visit := func(t *Task) {
		if t.state == Erred && t.mark != s.walk {
			t.mark = s.walk
			found = append(found, t)
		}
	}
	for _, k := range ev.Keys {
		if t := s.tasks.get(k); t != nil {
			visit(t)
		}
	}
	for i := 0; i < len(found); i++ {
		t := found[i]
		root := true
		for j := range t.deps {
			if d := t.deps[j].t; d.state == Erred {
				root = false
				visit(d)
			}
		}
		ev.Retried = append(ev.Retried, t.key)
		t.failures = 0 // who asks for it knows what it may do to workers
		if root {
			s.recommend(t, toWaiting)
		}
	}
}

// restart lets go of everything.
func (*Restart) apply(s *State) {
	for c := range s.Clients() {
		releaseAll(s, c)
		if c.id != FireAndForget {
			s.out.add(ClientRestart).Client = c.id
		}
	}
	s.drain()
	// What nobody wanted: data from outside.
	var rest []*Task
	for t := range s.Tasks() {
		rest = append(rest, t)
	}
	slices.SortFunc(rest, func(a, b *Task) int { return strings.Compare(string(a.key), string(b.key)) })
	for _, t := range rest {
		s.recommend(t, toForgotten)
	}
	for _, r := range s.requests {
		if !r.done {
			r.end(s, nil)
		}
	}
}
