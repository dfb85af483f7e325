package sim

import (
	sched "go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/taskid"
)

// dial opens the connections of a worker to the scheduler and registers it; it reports false if the scheduler is down.
func (h *head) dial(p *proc) bool {
	if !h.up {
		return false
	}
	w := h.w
	c := &conn{p: p, life: p.life, id: sched.NoWorker}
	life := h.life
	c.up = w.newLink(nil, func(m any) {
		if h.life == life {
			h.fromWorker(c, m)
		}
	})
	c.beat = w.newLink(nil, func(m any) {
		if h.life == life {
			h.beat(c, m)
		}
	})
	c.down = w.newLink(p, func(m any) { p.fromScheduler(c, m) })
	c.beatAnswer = w.newLink(p, func(m any) { p.fromScheduler(c, m) })
	for _, l := range []*link{c.up, c.beat, c.down, c.beatAnswer} {
		l.block(p.cutScheduler)
	}
	h.open = append(h.open, c)
	p.conn = c
	c.up.send(register{p})
	return true
}

// fromWorker handles a message of a worker's stream.
func (h *head) fromWorker(c *conn, m any) {
	switch m.(type) {
	case register:
		h.register(c)
		return
	case lostMessage:
		return
	case eof:
		h.w.trace("scheduler: stream of %s has ended", c.p.address)
		if c.id != sched.NoWorker {
			h.remove(c, &sched.RemoveWorker{Worker: c.id, Safe: c.graceful, Reason: "stream ended"})
		}
		h.forget(c)
		return
	}
	if c.id == sched.NoWorker {
		h.w.refused++ // removed: late messages are ignored
		return
	}
	switch m := m.(type) {
	case *sched.TaskFinished:
		m.Worker = c.id
		h.apply(m)
	case *sched.TaskErred:
		m.Worker = c.id
		h.apply(m)
	case *sched.AddKeys:
		m.Worker = c.id
		h.apply(m)
	case *sched.ReleaseWorkerData:
		m.Worker = c.id
		h.apply(m)
	case *sched.StealResponse:
		m.Worker = c.id
		h.apply(m)
	case *sched.LongRunning:
		m.Worker = c.id
		h.apply(m)
	case *sched.Reschedule:
		m.Worker = c.id
		h.apply(m)
	case *sched.RequestRefreshWhoHas:
		m.Worker = c.id
		h.apply(m)
	case *sched.WorkerStatusChange:
		m.Worker = c.id
		c.graceful = c.graceful || m.Status == sched.StatusClosingGracefully
		h.apply(m)
	default:
		h.w.fail("unknown message of a worker: type %T", m)
	}
}

func (h *head) register(c *conn) {
	// A worker that registers again with its address is the same process: its previous entry is removed.
	if old := h.s.WorkerByAddress(c.p.address); old != nil {
		if o := h.conn(old.ID()); o != nil {
			h.remove(o, &sched.RemoveWorker{Worker: o.id, Reason: "registered again"})
		}
	}
	add := &sched.AddWorker{Address: c.p.address, Name: c.p.name, Host: c.p.host, Threads: h.w.cfg.Threads,
		Status: c.p.status(), Values: h.w.cfg.Values, Ahead: h.w.cfg.Ahead,
		Resources: []sched.Resource{{Name: "R", Amount: 2}}}
	h.apply(add)
	if add.Err != nil {
		// The end of its previous process has not been detected yet.
		h.w.trace("scheduler rejects %s: %v", c.p.address, add.Err)
		c.down.send(registered{})
		return
	}
	c.id, c.lastBeat = add.Worker, h.w.clock.now
	for int(c.id) >= len(h.conns) {
		h.conns = append(h.conns, nil)
	}
	h.conns[c.id] = c
	c.down.send(registered{ok: true})
	// The state may have assigned tasks to it already, which could not be sent before it was added.
	list := h.out.List()
	for i := range list {
		if list[i].Worker == c.id {
			h.do(&list[i])
		}
	}
}

// remove removes a worker from the state and closes its connections.
func (h *head) remove(c *conn, ev *sched.RemoveWorker) {
	h.apply(ev)
	h.forget(c)
}

// forget closes the scheduler's side of a worker's connections.
func (h *head) forget(c *conn) {
	if c.id != sched.NoWorker {
		h.conns[c.id] = nil
		c.id = sched.NoWorker
	}
	c.down.end(false, 0)
	c.beatAnswer.end(false, 0)
	for i, o := range h.open {
		if o == c {
			h.open = append(h.open[:i], h.open[i+1:]...)
			break
		}
	}
}

func (h *head) beat(c *conn, m any) {
	hb, ok := m.(heartbeat)
	if !ok {
		return
	}
	if c.id == sched.NoWorker {
		h.w.refused++
		c.beatAnswer.send(missing{})
		return
	}
	c.lastBeat = h.w.clock.now
	ev := &sched.Heartbeat{Worker: c.id, Memory: 1 << 20}
	for _, k := range hb.executing {
		ev.Executing = append(ev.Executing, sched.Executing{Key: k})
	}
	h.apply(ev)
}

// accept accepts a client's stream; fromClient handles its messages.
func (h *head) accept(c *client) {
	add := &sched.AddClient{Name: c.name}
	h.apply(add)
	c.id = add.Client
	for int(c.id) >= len(h.clients) {
		h.clients = append(h.clients, nil)
	}
	h.clients[c.id] = c
	h.journal = append(h.journal, record{client: c.name})
}

func (h *head) fromClient(c *client, m any) {
	switch m := m.(type) {
	case hello:
		h.accept(c)
	case *sched.UpdateGraph:
		m.Client = c.id
		h.write(c, m)
		h.apply(m)
		if m.Err != nil {
			h.w.fail("graph of %s: got error %v, want none", c.name, m.Err)
		}
	case *sched.ClientDesires:
		m.Client = c.id
		h.write(c, m)
		h.apply(m)
	case *sched.ClientReleases:
		m.Client = c.id
		h.write(c, m)
		h.apply(m)
	case *sched.CancelKeys:
		m.Client = c.id
		h.write(c, m)
		h.apply(m)
	case *sched.Retry:
		m.Client = c.id
		h.apply(m)
	case *sched.ReportKey:
		m.Client = c.id
		h.apply(m)
	case lostMessage, eof:
	default:
		h.w.fail("unknown message of a client: type %T", m)
	}
}

// write appends an event to the journal before it is applied to the state.
func (h *head) write(c *client, ev sched.Event) {
	if h.w.cfg.Faults.RestartScheduler > 0 {
		h.journal = append(h.journal, record{c.name, ev})
	}
}

// ask applies an administrator's request.
func (h *head) ask(what string, make func(number uint64) sched.Event) {
	h.request++
	h.waiting[h.request] = what
	h.w.trace("request %d: %s", h.request, what)
	h.apply(make(h.request))
}

// someKeys picks keys that are in memory.
func (h *head) someKeys(n int) []taskid.Key {
	var keys []taskid.Key
	for range n {
		x := h.w.nodes[h.w.rnd.IntN(len(h.w.nodes))]
		if t := h.s.Task(x.key); t != nil && t.State() == sched.Memory {
			keys = append(keys, x.key)
		}
	}
	return keys
}
