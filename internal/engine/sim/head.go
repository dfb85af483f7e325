package sim

import (
	"encoding/binary"
	"strconv"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	work "go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task/taskid"
)

const (
	heartbeatEvery = 500 * time.Millisecond
	heartbeatTTL   = 6 * time.Second
	tickEvery      = 100 * time.Millisecond
	holdFor        = 2 * time.Second
)

// Messages that are not events of a state machine.
type (
	register   struct{ p *proc }                // worker → scheduler, first message of a stream
	registered struct{ ok bool }                // and the reply
	heartbeat  struct{ executing []taskid.Key } // worker → scheduler, on another connection
	missing    struct{}                         // scheduler → worker: reply to a heartbeat of an unknown worker
	statusIs   struct{ status sched.WorkerStatus }
	closeOrder struct{ reason string }
	hello      struct{ c *client } // client → scheduler, first message of a stream
	values     struct {            // scheduler → worker: results that the worker need not fetch
		keys  []taskid.Key
		sizes []int64
		list  []uint64
	}
	toClient struct { // scheduler → client
		kind sched.ActionKind
		keys []taskid.Key
		fail *sched.Failure
	}
)

// conn is a stream between the scheduler and a worker, with the connection of its heartbeats.
type conn struct {
	p          *proc
	life       int // of the process that opened it
	up, down   *link
	beat       *link // heartbeats
	beatAnswer *link
	id         sched.WorkerID // NoWorker before registration and after removal
	lastBeat   int64
	graceful   bool
}

// head is the scheduler's process: the simulated server around the state.
type head struct {
	w       *world
	s       *sched.State
	out     sched.Actions
	epoch   uint32
	up      bool
	life    int
	conns   []*conn   // of registered workers, by id
	clients []*client // connected, by id
	open    []*conn
	journal []record
	request uint64
	waiting map[uint64]string // requests without a reply
	cpu     time.Duration     // in Apply
	events  uint64
}

// record is a record of the journal.
type record struct {
	client string
	ev     sched.Event // *UpdateGraph, *ClientDesires, *ClientReleases, *CancelKeys; nil: client registered
}

func newHead(w *world) *head {
	h := &head{w: w}
	h.start()
	return h
}

func (h *head) start() {
	h.epoch++
	h.life++
	h.up = true
	h.conns, h.clients, h.open = nil, nil, nil
	h.waiting = map[uint64]string{}
	logLength := 0
	if !h.w.cfg.Validate {
		logLength = -1
	}
	h.s = sched.New(sched.Config{
		Epoch: h.epoch, Validate: h.w.cfg.Validate, AllowedFailures: 3, TransitionLog: logLength,
		WorkerSaturation: h.w.cfg.Saturation, NoStealing: h.w.cfg.NoStealing, StealInterval: tickEvery,
		UnknownTaskDuration: h.w.cfg.Tasks.Duration,
	})
	if len(h.journal) > 0 {
		h.apply(&sched.Hold{On: true})
		for _, r := range h.journal {
			h.replay(r)
		}
		life := h.life
		h.w.clock.after(holdFor, func() {
			if h.life == life && h.up {
				h.apply(&sched.Hold{})
			}
		})
	}
	h.tick(h.life)
}

func (h *head) replay(r record) {
	add := &sched.AddClient{Name: r.client}
	h.apply(add)
	switch ev := r.ev.(type) {
	case *sched.UpdateGraph:
		ev.Client = add.Client
	case *sched.ClientDesires:
		ev.Client = add.Client
	case *sched.ClientReleases:
		ev.Client = add.Client
	case *sched.CancelKeys:
		ev.Client = add.Client
	}
	if r.ev != nil {
		h.apply(r.ev)
	}
}

// kill kills the scheduler: all its connections break, and all state but the journal is lost.
func (h *head) kill() {
	h.w.trace("scheduler killed")
	h.up = false
	for _, c := range h.open {
		c.up.drop()
		c.beat.drop()
		c.down.end(true, h.w.delay())
		c.beatAnswer.end(true, h.w.delay())
	}
	for _, c := range h.w.clients {
		c.cut()
	}
}

func (h *head) tick(life int) {
	if h.life != life || !h.up || h.w.over {
		return
	}
	h.apply(&sched.Tick{})
	now := h.w.clock.now
	for _, c := range h.conns {
		if c != nil && now-c.lastBeat > int64(heartbeatTTL) {
			h.w.trace("scheduler: no heartbeat of %s", c.p.address)
			h.remove(c, &sched.RemoveWorker{Worker: c.id, Close: true, Reason: "no heartbeat"})
		}
	}
	h.w.clock.after(tickEvery, func() { h.tick(life) })
}

// apply applies an event to the state and carries out its actions.
func (h *head) apply(ev sched.Event) {
	if h.w.tracing {
		h.w.trace("scheduler <- %s", describe(ev))
	}
	start := h.w.cfg.cpu()
	h.s.Apply(h.w.clock.time(), ev, &h.out)
	h.cpu += h.w.cfg.cpu() - start
	h.events++
	list := h.out.List()
	for i := range list {
		h.do(&list[i])
	}
}

// do carries out one action as a message.
func (h *head) do(a *sched.Action) {
	switch a.Kind {
	case sched.ActionNone, sched.LogEvent:
		return
	case sched.RequestDone:
		h.w.trace("request %d done, %d keys unmet", a.Number, len(a.Keys))
		if _, ok := h.waiting[a.Number]; !ok {
			h.w.fail("request %d: got a second or unexpected reply", a.Number)
		}
		delete(h.waiting, a.Number)
		return
	case sched.WorkerRemoved:
		if c := h.conn(a.Worker); c != nil {
			h.forget(c)
		}
		return
	}
	if a.Worker != sched.NoWorker {
		c := h.conn(a.Worker)
		if c == nil {
			return // being removed
		}
		if m := h.message(a); m != nil {
			c.down.send(m)
		}
		return
	}
	if a.Client <= 0 || int(a.Client) >= len(h.clients) || h.clients[a.Client] == nil {
		return // fire and forget, or not connected
	}
	m := toClient{kind: a.Kind, fail: a.Failure}
	if a.Kind == sched.CancelledKeys {
		m.keys = append(m.keys, a.Keys...)
	} else if a.Key != "" {
		m.keys = []taskid.Key{a.Key}
	} else if a.Task != nil {
		m.keys = []taskid.Key{a.Task.Key()}
	}
	h.clients[a.Client].down.send(m)
}

func (h *head) conn(id sched.WorkerID) *conn {
	if id < 0 || int(id) >= len(h.conns) {
		return nil
	}
	return h.conns[id]
}

// message converts an action to a message for a worker.
func (h *head) message(a *sched.Action) any {
	switch a.Kind {
	case sched.ComputeTask:
		t := a.Task
		if t.State() == sched.Waiting {
			h.w.report.Ahead++
		}
		p := t.Priority()
		m := &work.ComputeTask{Key: t.Key(), RunID: a.RunID, Spec: t.Spec(),
			Priority: work.Priority{p.User, p.Generation, float64(p.Order)}, Actor: t.Actor()}
		if n := t.NumDeps(); n > 0 {
			m.Deps = make([]work.Dep, n)
			for i := range n {
				m.Deps[i] = depOf(t.Dep(i))
			}
		}
		if notes := t.Annotations(); notes != nil {
			for _, r := range notes.Resources {
				m.Resources = append(m.Resources, work.Resource(r))
			}
		}
		return m
	case sched.FreeKeys:
		return &work.FreeKeys{Keys: append([]taskid.Key(nil), a.Keys...)}
	case sched.RemoveReplicas:
		return &work.RemoveReplicas{Keys: append([]taskid.Key(nil), a.Keys...)}
	case sched.AcquireReplicas:
		return &work.AcquireReplicas{Deps: depsOf(a.Tasks)}
	case sched.RefreshWhoHas:
		m := &work.RefreshWhoHas{Deps: depsOf(a.Tasks)}
		for _, k := range a.Keys { // unknown keys have no holders
			m.Deps = append(m.Deps, work.Dep{Key: k, NBytes: -1})
		}
		return m
	case sched.StealRequest:
		return &work.StealRequest{Key: a.Key, Stimulus: strconv.FormatUint(a.Number, 10)}
	case sched.ForgetPeer:
		return &work.RemovePeer{Peer: a.Text}
	case sched.StatusChange:
		return statusIs{a.Status}
	case sched.CloseWorker:
		return closeOrder{a.Text}
	case sched.StoreValues:
		var m values
		for _, t := range a.Tasks {
			m.keys, m.sizes = append(m.keys, t.Key()), append(m.sizes, t.NBytes())
			m.list = append(m.list, binary.LittleEndian.Uint64(t.AppendValue(nil)))
		}
		h.w.report.Values += len(m.keys)
		return m
	}
	h.w.fail("unknown action for a worker: kind %v", a.Kind)
	return nil
}

func depOf(t *sched.Task) work.Dep {
	d := work.Dep{Key: t.Key(), NBytes: t.NBytes()}
	for i := range t.NumHolders() {
		d.WhoHas = append(d.WhoHas, t.Holder(i).Address())
	}
	return d
}

func depsOf(tasks []*sched.Task) []work.Dep {
	deps := make([]work.Dep, len(tasks))
	for i, t := range tasks {
		deps[i] = depOf(t)
	}
	return deps
}
