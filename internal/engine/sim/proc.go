package sim

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	work "go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task/taskid"
)

// proc is a worker's process: the simulated server around the state. It may be killed and restarted; life counts the
// starts.
type proc struct {
	w        *world
	index    int
	name     string
	host     string
	address  string
	life     int
	alive    bool
	detached bool // the state has been notified that there is no scheduler
	joined   bool // has registered in this life
	paused   bool
	closing  bool // closing gracefully
	mute     int64
	frozen   int64 // stopped until then (SIGSTOP)
	slow     float64
	// Times until which it cannot reach the scheduler, and peers.
	cutScheduler, cutPeers int64

	s        *work.State
	out      work.Actions
	conn     *conn
	store    map[taskid.Key]uint64
	runs     []*run
	outgoing int
	serving  []*transfer
	cpu      time.Duration
	events   uint64
}

// run is a task that a thread of a worker computes.
type run struct {
	p      *proc
	life   int
	key    taskid.Key
	n      *node
	spec   []byte
	inputs []uint64
	start  int64
	stage  int
}

func (w *world) newProc(i int) *proc {
	p := &proc{w: w, index: i, name: fmt.Sprintf("worker-%d", i), host: fmt.Sprintf("host-%d", i/2), slow: 1}
	p.boot()
	return p
}

// boot starts the process with an empty state.
func (p *proc) boot() {
	p.life++
	p.alive, p.joined, p.detached, p.paused, p.closing = true, false, false, false, false
	p.mute, p.frozen, p.slow, p.cutScheduler, p.cutPeers, p.outgoing = 0, 0, 1, 0, 0, 0
	p.address = fmt.Sprintf("tcp://%s:%d", p.host, 10_000*(p.index+1)+p.life)
	p.w.address[p.address] = p
	p.store = map[taskid.Key]uint64{}
	p.runs = nil
	logLength := 0
	if !p.w.cfg.Validate {
		logLength = -1
	}
	p.s = work.New(work.Config{Address: p.address, Threads: p.w.cfg.Threads,
		Resources: []work.Resource{{Name: "R", Amount: 2}}, Validate: p.w.cfg.Validate, LogLength: logLength})
	p.w.trace("%s boots as %s", p.name, p.address)
	p.attach()
	p.every(heartbeatEvery, p.beat)
	p.every(time.Second, func() { p.apply(&work.FindMissing{}) })
}

// later calls f after a time if the process is still running then; a frozen one calls it when it resumes.
func (p *proc) later(d time.Duration, f func()) {
	life := p.life
	var again func()
	again = func() {
		switch {
		case !p.alive || p.life != life || p.w.over:
		case p.frozen > p.w.clock.now:
			p.w.clock.at(p.frozen, funcFirer(again))
		default:
			f()
		}
	}
	p.w.clock.after(d, again)
}

func (p *proc) every(d time.Duration, f func()) {
	p.later(d, func() {
		f()
		p.every(d, f)
	})
}

// attach connects to the scheduler, with retries until that succeeds.
func (p *proc) attach() {
	if p.w.clock.now < p.cutScheduler || !p.w.head.dial(p) {
		p.later(300*time.Millisecond, p.attach)
	}
}

func (p *proc) status() sched.WorkerStatus {
	if p.paused {
		return sched.StatusPaused
	}
	return sched.StatusRunning
}

// fromScheduler handles a message of the stream, or a reply to a heartbeat.
func (p *proc) fromScheduler(c *conn, m any) {
	if !p.alive || p.life != c.life || p.conn != c {
		return
	}
	switch m := m.(type) {
	case work.Event:
		p.apply(m)
	case registered:
		if !m.ok {
			p.closeStream()
			p.later(time.Second, p.attach)
			return
		}
		if p.joined {
			p.detached = false
			p.apply(&work.Reattach{})
		}
		p.joined = true
	case values:
		ev := &work.UpdateData{Passed: true}
		for i, k := range m.keys {
			p.store[k] = m.list[i]
			ev.Data = append(ev.Data, work.Stored{Key: k, NBytes: m.sizes[i], TypeName: "value"})
		}
		p.apply(ev)
	case statusIs:
		if m.status == sched.StatusClosingGracefully {
			p.closing = true
			if !p.paused {
				p.pause(true)
			}
		} else {
			p.open()
		}
		p.send(&sched.WorkerStatusChange{Status: m.status})
	case closeOrder:
		p.w.trace("%s receives order to close: %s", p.name, m.reason)
		p.exit(false)
		p.w.revive(p, time.Second)
	case missing:
		p.w.trace("%s is unknown to the scheduler", p.name)
		p.streamEnded()
	case eof:
		p.streamEnded()
	case lostMessage:
	default:
		p.w.fail("unknown message to a worker: type %T", m)
	}
}

// open cancels a graceful close.
func (p *proc) open() {
	if p.closing {
		p.closing = false
		p.pause(false)
	}
}

// streamEnded handles the end of the stream: the worker keeps its data and reconnects.
func (p *proc) streamEnded() {
	p.closeStream()
	if p.joined && !p.detached {
		p.detached = true
		p.apply(&work.SchedulerLost{})
	}
	p.open() // the scheduler that retired it is gone
	p.later(time.Duration(1+p.w.rnd.IntN(1000))*time.Millisecond, p.attach)
}

func (p *proc) closeStream() {
	c := p.conn
	p.conn = nil
	if c != nil {
		c.down.drop()
		c.beatAnswer.drop()
		c.up.end(false, 0)
		c.beat.end(false, 0)
	}
}

func (p *proc) send(m any) {
	if p.conn != nil {
		p.conn.up.send(m)
	}
}

func (p *proc) beat() {
	if p.conn == nil || p.w.clock.now < p.mute {
		return
	}
	hb := heartbeat{}
	for _, r := range p.runs {
		hb.executing = append(hb.executing, r.key)
	}
	p.conn.beat.send(hb)
}

func (p *proc) pause(on bool) {
	p.paused = on
	if on {
		p.apply(&work.Pause{})
	} else {
		p.apply(&work.Unpause{})
	}
	if p.joined && !p.detached && !p.closing {
		p.send(&sched.WorkerStatusChange{Status: p.status()})
	}
}

// exit ends the process. With silent, connections are not closed (a host that loses its power), so that only missing
// heartbeats show it.
func (p *proc) exit(silent bool) {
	p.w.trace("%s (%s) exits, silent=%v, with %d results", p.name, p.address, silent, len(p.store))
	if len(p.store) > 0 {
		p.w.report.LostStores++
	}
	p.alive = false
	p.abandon(silent)
	c := p.conn
	p.conn = nil
	if c == nil {
		return
	}
	c.down.drop()
	c.beatAnswer.drop()
	if !silent {
		c.up.end(true, p.w.delay())
		c.beat.end(true, p.w.delay())
	} else {
		c.up.ended, c.beat.ended = true, true
	}
}

// apply applies an event to the state and carries out its actions.
func (p *proc) apply(ev work.Event) {
	if p.w.tracing {
		p.w.trace("%s <- %s", p.name, describe(ev))
	}
	start := p.w.cfg.cpu()
	p.s.Apply(p.w.clock.time(), ev, &p.out)
	p.cpu += p.w.cfg.cpu() - start
	p.events++
	list := p.out.List()
	for i := range list {
		p.do(&list[i])
	}
}

// do carries out one action.
func (p *proc) do(a *work.Action) {
	switch a.Kind {
	case work.DoExecute:
		p.execute(a.Task)
	case work.DoCancel: // simulated tasks cannot be interrupted
	case work.DoGather:
		p.gather(a)
	case work.DoRetryBusy:
		peer := a.Peer.Address()
		p.later(a.After, func() { p.apply(&work.RetryBusy{Peer: peer}) })
	case work.DoDelete:
		if _, ok := p.store[a.Key]; !ok {
			p.w.fail("%s: order to delete %s, which is not in the store", p.name, a.Key)
		}
		delete(p.store, a.Key)
	case work.SendTaskFinished:
		start, stop, _ := a.Task.Times()
		m := &sched.TaskFinished{Key: a.Key, RunID: a.RunID, NBytes: a.Task.NBytes(), TypeName: "value",
			Duration: time.Duration(stop - start)}
		if v, ok := p.store[a.Key]; ok && p.w.cfg.Values {
			m.Value = binary.LittleEndian.AppendUint64(nil, v)
		}
		p.send(m)
	case work.SendTaskErred:
		p.send(&sched.TaskErred{Key: a.Key, RunID: a.RunID, ExceptionText: a.Task.Failure().ExceptionText})
	case work.SendAddKeys:
		m := &sched.AddKeys{Adopt: a.Adopt}
		for _, t := range a.Tasks {
			m.Keys = append(m.Keys, t.Key())
			m.NBytes = append(m.NBytes, t.NBytes())
		}
		p.send(m)
	case work.SendReleaseData:
		p.send(&sched.ReleaseWorkerData{Key: a.Key})
	case work.SendStealResponse:
		n, err := strconv.ParseUint(a.Stimulus, 10, 64)
		if err != nil {
			p.w.fail("steal response without the number of the request: %q", a.Stimulus)
		}
		m := &sched.StealResponse{Key: a.Key, Steal: n}
		if a.HasState {
			m.State = a.State.String()
		}
		p.send(m)
	case work.SendLongRunning:
		d := time.Duration(-1)
		if a.HasState {
			d = a.After
		}
		p.send(&sched.LongRunning{Key: a.Key, RunID: a.RunID, Duration: d})
	case work.SendReschedule:
		p.send(&sched.Reschedule{Key: a.Key, RunID: a.RunID})
	case work.SendRequestRefresh:
		m := &sched.RequestRefreshWhoHas{}
		for _, t := range a.Tasks {
			m.Keys = append(m.Keys, t.Key())
		}
		p.send(m)
	default:
		p.w.fail("unknown action of a worker: kind %v", a.Kind)
	}
}

// execute starts a run. All inputs must be in the store.
func (p *proc) execute(t *work.Task) {
	id := int(binary.LittleEndian.Uint32(t.Spec()))
	n := p.w.nodes[id]
	if n.key != t.Key() || t.NumDeps() != len(n.deps) {
		p.w.fail("%s runs %s: got the spec of %s with %d inputs, want %d", p.name, t.Key(), n.key, t.NumDeps(),
			len(n.deps))
		return
	}
	r := &run{p: p, life: p.life, key: n.key, n: n, spec: t.Spec(), start: p.w.clock.now}
	if len(n.deps) > 0 {
		r.inputs = make([]uint64, len(n.deps))
		for i, d := range n.deps {
			v, ok := p.store[d.key]
			if !ok {
				p.w.fail("%s runs %s without its input %s", p.name, n.key, d.key)
				return
			}
			r.inputs[i] = v
		}
	}
	p.runs = append(p.runs, r)
	d := time.Duration(float64(n.duration) * p.slow)
	if n.secede {
		d /= 2
	}
	p.w.report.Runs++
	p.w.clock.at(p.w.clock.now+int64(d), r)
}

// fire continues a run: it ends, or leaves the thread pool half-way.
func (r *run) fire() {
	p := r.p
	if !p.alive || p.life != r.life || p.w.over {
		return
	}
	if p.frozen > p.w.clock.now {
		p.w.clock.at(p.frozen, r)
		return
	}
	if r.n.secede && r.stage == 0 {
		r.stage = 1
		p.w.clock.at(p.w.clock.now+int64(float64(r.n.duration)*p.slow/2), r)
		p.apply(&work.Secede{Key: r.key, Duration: time.Duration(p.w.clock.now - r.start)})
		return
	}
	for i, x := range p.runs {
		if x == r {
			p.runs = append(p.runs[:i], p.runs[i+1:]...)
			break
		}
	}
	begin := epoch.UnixNano() + r.start
	stop := epoch.UnixNano() + p.w.clock.now
	switch n := r.n; {
	case n.resched && !n.rescheduled:
		n.rescheduled = true
		p.apply(&work.Reschedule{Key: r.key})
	case n.hopeless, n.attempts < n.failures:
		n.attempts++
		p.apply(&work.ExecuteFailure{Key: r.key, Failure: &work.Failure{ExceptionText: "as planned"}, Start: begin,
			Stop: stop})
	default:
		p.store[r.key] = result(r.spec, func(i int) uint64 { return r.inputs[i] }, len(r.inputs))
		p.apply(&work.ExecuteSuccess{Stored: work.Stored{Key: r.key, NBytes: n.size, TypeName: "value"}, Start: begin,
			Stop: stop})
	}
}
