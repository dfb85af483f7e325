package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/taskid"
)

func (s *State) addClient(ev *AddClient) {
	if c := s.byClient[ev.Name]; c != nil {
		c.Data = ev.Data
		ev.Client = c.id
		return
	}
	c := &Client{name: strings.Clone(ev.Name), Data: ev.Data}
	if n := len(s.freeClients); n > 0 {
		c.id = s.freeClients[n-1]
		s.freeClients = s.freeClients[:n-1]
		s.clients[c.id] = c
	} else {
		c.id = ClientID(len(s.clients))
		s.clients = append(s.clients, c)
	}
	s.byClient[c.name] = c
	ev.Client = c.id
}

func (s *State) removeClient(ev *RemoveClient) {
	c := s.Client(ev.Client)
	if c == nil || c.id == FireAndForget {
		return
	}
	s.releaseAll(c)
	c.removed = true
	delete(s.byClient, c.name)
	s.clients[c.id] = nil
	s.leftClients = append(s.leftClients, c.id)
}

// releaseAll takes a client from everything it wants.
func (s *State) releaseAll(c *Client) {
	for n := len(c.wants); n > 0; n = len(c.wants) {
		s.unwant(c.wants[n-1].t, c)
	}
}

// unwant takes a client from those who want a task.
func (s *State) unwant(t *Task, c *Client) {
	if t.dropWant(c) && !t.needed() {
		s.recommend(t, toUnneeded)
	}
}

// desire adds a client to those who want a task, and tells it if the task is done.
func (s *State) desire(t *Task, c *Client) {
	t.addWant(c)
	s.report(c, t)
	if t.state == Memory || t.state == Erred {
		s.ranOnce(t)
	}
}

func (s *State) clientDesires(ev *ClientDesires) {
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
		s.desire(t, c)
		if t.state == Released {
			s.recommend(t, toWaiting)
		}
	}
	s.cancelled(c, unknown, "unknown to the scheduler", "")
}

func (s *State) clientReleases(ev *ClientReleases) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	for _, k := range ev.Keys {
		if t := s.tasks.get(k); t != nil {
			s.unwant(t, c)
		}
	}
}

func (s *State) reportKey(ev *ReportKey) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	if t := s.tasks.get(ev.Key); t != nil {
		s.report(c, t)
	} else {
		s.cancelled(c, []taskid.Key{taskid.Key(strings.Clone(string(ev.Key)))}, "unknown to the scheduler", "")
	}
}

// cancelKeys releases keys and all that depend on them, as far as only this client wants them.
func (s *State) cancelKeys(ev *CancelKeys) {
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
			s.unwant(t, who)
		}
	}
	for _, who := range clients {
		s.cancelled(who, told[who], strings.Clone(ev.Reason), strings.Clone(ev.Msg))
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
func (s *State) retry(ev *Retry) {
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
func (s *State) restart(*Restart) {
	for c := range s.Clients() {
		s.releaseAll(c)
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
			s.endRequest(r, nil)
		}
	}
}
