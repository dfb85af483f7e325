package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Client is a client, or a part of the scheduler that holds keys (variables, queues, published datasets). The State
// owns it; others may read it until the next Apply.
type Client struct {
	id   ClientID
	name string
	// Data belongs to the server; the state does not use it.
	Data any

	wants   []wanted
	removed bool
}

// wanted is a task that a client holds: place is the index in the task's list.
type wanted struct {
	t     *Task
	place int32
}

// ID returns the ID of the client.
func (c *Client) ID() ClientID { return c.id }

// Name returns the name of the client.
func (c *Client) Name() string { return c.name }

// NumWanted returns the number of keys that the client holds.
func (c *Client) NumWanted() int { return len(c.wants) }

// Wanted returns the i-th task that the client holds.
func (c *Client) Wanted(i int) *Task { return c.wants[i].t }

// clientSet are all clients, by ID and name. IDs of removed clients are reused from the next event on.
type clientSet struct {
	all        []*Client // by ID; nil for removed ones
	free, left []ClientID
	byName     map[string]*Client
}

func newClientSet() clientSet { return clientSet{byName: map[string]*Client{}} }

// get returns the client with an ID, nil if there is none.
func (cs *clientSet) get(id ClientID) *Client {
	if id < 0 || int(id) >= len(cs.all) {
		return nil
	}
	return cs.all[id]
}

// add creates the client with a name that is not in use.
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

// remove removes a client that holds nothing.
func (cs *clientSet) remove(c *Client) {
	c.removed = true
	delete(cs.byName, c.name)
	cs.all[c.id] = nil
	cs.left = append(cs.left, c.id)
}

// reclaim frees the IDs of clients that the last event removed.
func (cs *clientSet) reclaim() {
	if len(cs.left) > 0 {
		cs.free = append(cs.free, cs.left...)
		cs.left = cs.left[:0]
	}
}

// addWant records that a client holds a task. It reports whether that is new.
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

// dropWant records that a client no longer holds a task.
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

// releaseAll releases all tasks of a client.
func releaseAll(s *State, c *Client) {
	for n := len(c.wants); n > 0; n = len(c.wants) {
		releaseWant(s, c.wants[n-1].t, c)
	}
}

// releaseWant releases a task of a client.
func releaseWant(s *State, t *Task, c *Client) {
	if t.dropWant(c) && !t.needed() {
		s.recommend(t, toUnneeded)
	}
}

// desire makes a client hold a task, and notifies it if the task is done.
func desire(s *State, t *Task, c *Client) {
	t.addWant(c)
	s.out.report(c, t)
	if t.state == Memory || t.state == Erred {
		s.releaseFireAndForget(t)
	}
}

func (ev *ClientDesires) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	var unknown []taskid.Key
	for _, k := range ev.Keys {
		t := s.tasks.Get(k)
		if t == nil {
			unknown = append(unknown, taskid.Key(strings.Clone(string(k))))
			continue
		}
		desire(s, t, c)
		if t.state == Released {
			s.recommend(t, toWaiting)
		}
	}
	s.out.cancelKeys(c, unknown, "unknown to the scheduler", "")
}

func (ev *ClientReleases) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	for _, k := range ev.Keys {
		if t := s.tasks.Get(k); t != nil {
			releaseWant(s, t, c)
		}
	}
}

func (ev *ReportKey) apply(s *State) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	if t := s.tasks.Get(ev.Key); t != nil {
		s.out.report(c, t)
	} else {
		s.out.cancelKeys(c, []taskid.Key{taskid.Key(strings.Clone(string(ev.Key)))}, "unknown to the scheduler", "")
	}
}

// apply releases keys and their dependents, as far as only this client holds them.
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
		if t := s.tasks.Get(k); t != nil {
			visit(t)
		}
	}
	for i := 0; i < len(found); i++ {
		for j := range found[i].dependents {
			visit(found[i].dependents[j].t)
		}
	}
	canceled := map[*Client][]taskid.Key{} // not iterated; the order is that of clients
	clients := []*Client{c}
	for _, t := range found {
		for n := len(t.wants); n > 0; n = len(t.wants) {
			who := t.wants[n-1].c
			if !slices.Contains(clients, who) {
				clients = append(clients, who)
			}
			canceled[who] = append(canceled[who], t.key)
			releaseWant(s, t, who)
		}
	}
	for _, who := range clients {
		s.out.cancelKeys(who, canceled[who], strings.Clone(ev.Reason), strings.Clone(ev.Msg))
	}
}

// wantedOnlyBy reports whether no other client holds the task.
func (t *Task) wantedOnlyBy(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c != c {
			return false
		}
	}
	return true
}

// apply runs erred tasks again: first those that failed themselves, then their dependents.
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
		if t := s.tasks.Get(k); t != nil {
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
		t.failures = 0 // an explicit retry resets the count of lost workers
		if root {
			s.recommend(t, toWaiting)
		}
	}
}

// apply releases everything.
func (*Restart) apply(s *State) {
	for c := range s.Clients() {
		releaseAll(s, c)
		if c.id != FireAndForget {
			s.out.add(ClientRestart).Client = c.id
		}
	}
	s.drain()
	// The rest, which no client holds: scattered data.
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
