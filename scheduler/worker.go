package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// worker is what the server knows of a worker beside the state. The loop owns it.
type worker struct {
	id       state.WorkerID
	address  string
	name     any    // a text or a number, as the worker sent it
	alias    string // the name as msgpack
	host     string
	serverID string
	nanny    any
	pid      int64
	dir      string
	services any
	versions any
	extra    msgpack.Map
	metrics  any
	lastSeen time.Time
	delay    float64 // seconds that its clock is behind ours
	doubted  bool    // the log has said that its figures cannot be
	st       *stream

	incarnation string // secret of the process, "" for Python workers: with it the worker may return with its results
	mayReturn   bool   // its connection was lost and its process may live on

	token  string        // by which its nanny reports how its process ended, "" without a nanny
	cause  string        // why its process ended, "" if unknown
	caused chan struct{} // closed when cause is set
}

// registration is what register-worker carries.
type registration struct {
	Address     string      `rpc:"address"`
	Status      string      `rpc:"status,optional"`
	ServerID    string      `rpc:"server_id,optional"`
	Threads     int         `rpc:"nthreads"`
	Name        any         `rpc:"name,optional"`
	Resolve     any         `rpc:"resolve_address,optional"`
	Now         float64     `rpc:"now,optional"`
	Resources   msgpack.Map `rpc:"resources,optional"`
	HostInfo    any         `rpc:"host_info,optional"`
	MemoryLimit any         `rpc:"memory_limit,optional"`
	Metrics     any         `rpc:"metrics,optional"`
	PID         int64       `rpc:"pid,optional"`
	Services    any         `rpc:"services,optional"`
	Directory   string      `rpc:"local_directory,optional"`
	Versions    any         `rpc:"versions,optional"`
	Nanny       any         `rpc:"nanny,optional"`
	Extra       msgpack.Map `rpc:"extra,optional"`
	Stimulus    string      `rpc:"stimulus_id,optional"`
}

// registerWorker takes a worker in. The comm becomes its stream for as long as it lives.
// Workers do not ask for a reply, but wait for one: errors are said by hand.
func (s *Scheduler) registerWorker(ctx context.Context, r *rpc.Request) (any, error) {
	arrived := time.Now()
	var in registration
	err := r.Args(&in)
	var w *worker
	var ev *state.AddWorker
	if err == nil {
		w, ev, err = newWorker(&in)
	}
	if err == nil {
		err = s.checkRelease(ctx, "worker "+w.address, in.Versions)
	}
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	r.Takeover()
	st := s.newStream(r.Comm)
	st.worker, w.st = w, st
	reply, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) { return s.addWorker(w, ev, &in) })
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	// Dask's workers set their clocks by this, taken to be the middle of their wait. The first
	// registration may have waited for Python to be found.
	reply.Set("time", val.Seconds(arrived.Add(time.Since(arrived)/2)))
	err = s.say(ctx, r.Comm, reply)
	st.out.Start()
	if err == nil {
		err = st.read(ctx)
	}
	s.streamEnded(st, err)
	return rpc.NoReply, nil
}

// refuse answers a registration with an error, both as Dask's workers and as ours read it,
// and ends the comm.
func (s *Scheduler) refuse(ctx context.Context, c comm.Comm, why error) error {
	s.log.Warn("a worker is refused", "peer", c.PeerAddr(), "error", why)
	m, err := rpc.ErrorMessage(why, "uncaught-error")
	var taken *nameTaken
	var old *oldRelease
	if errors.As(why, &taken) || errors.As(why, &old) {
		// Dask's workers look at the status, not for an exception.
		m, err = msgpack.MapOf("status", "error", "message", why.Error(), "time", val.Seconds(time.Now())), nil
	}
	if err == nil {
		err = s.say(ctx, c, m)
	}
	return errors.Join(err, c.Close())
}

func (s *Scheduler) say(ctx context.Context, c comm.Comm, v any) error {
	m, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	defer m.Release()
	return c.Write(ctx, m)
}

// nameTaken is a worker's name that another worker has.
type nameTaken struct{ name any }

func (e *nameTaken) Error() string { return fmt.Sprintf("name taken, %v", e.name) }

// newWorker checks a registration. It runs outside of the loop and copies what is kept.
func newWorker(in *registration) (*worker, *state.AddWorker, error) {
	bad := func(format string, args ...any) (*worker, *state.AddWorker, error) {
		return nil, nil, &rpc.Exception{Type: "ValueError", Message: "register-worker: " + fmt.Sprintf(format, args...)}
	}
	address := comm.NormalizeAddress(in.Address)
	host, err := comm.AddressHost(address)
	if err != nil {
		return bad("address %q: %v", in.Address, err)
	}
	if in.Threads < 1 {
		return bad("nthreads is %d, a worker needs at least 1", in.Threads)
	}
	status, ok := state.ParseStatus(val.OrText(in.Status, "running"))
	if !ok {
		return bad("status %q is not known", in.Status)
	}
	w := &worker{
		address: strings.Clone(address), host: strings.Clone(host), serverID: strings.Clone(in.ServerID), pid: in.PID, dir: strings.Clone(in.Directory),
		name: wire.Clone(in.Name), nanny: wire.Clone(in.Nanny), services: wire.Clone(in.Services), versions: wire.Clone(in.Versions), metrics: wire.Clone(in.Metrics),
	}
	w.caused = make(chan struct{})
	w.extra, _ = wire.Clone(in.Extra).(msgpack.Map)
	switch w.name.(type) {
	case nil:
		w.name = w.address
	case msgpack.Map, []any:
		return bad("name %v: want a text or a number", w.name)
	}
	alias, err := msgpack.Append(nil, w.name)
	if err != nil {
		return bad("name %v: %v", w.name, err)
	}
	w.alias = string(alias)
	ev := &state.AddWorker{Address: w.address, Name: nameText(w.name), Host: w.host, Threads: in.Threads, Status: status, Data: w}
	if ev.MemoryLimit, ok = val.Integer(in.MemoryLimit); !ok && in.MemoryLimit != nil {
		return bad("memory_limit is %v, want a number of bytes or None", in.MemoryLimit)
	}
	if ev.Resources, err = resources(in.Resources); err != nil {
		return bad("resources: %v", err)
	}
	ev.Can = state.Python
	if ours, ok := w.extra.Get("millstream"); ok {
		m, _ := ours.(msgpack.Map)
		ev.Registry = strings.Clone(m.GetString("registry"))
		ev.Can = state.Go
		w.token = m.GetString("death-token")
		w.incarnation = m.GetString("incarnation")
		m.Delete("death-token") // secrets; identity shows what is left
		m.Delete("incarnation")
		w.extra.Set("millstream", m)
		if python, _ := m.Get("python"); python == true {
			ev.Can |= state.Python
		}
	}
	if in.Now > 0 {
		w.delay = val.Seconds(time.Now()) - in.Now
	}
	return w, ev, nil
}

// nameText is a worker's name as restrictions write it.
func nameText(name any) string {
	if t, ok := name.(string); ok {
		return t
	}
	return fmt.Sprint(name)
}

func resources(m msgpack.Map) ([]state.Resource, error) {
	var out []state.Resource
	for name, v := range m.All() {
		n, ok := name.(string)
		amount, ok2 := val.Number(v)
		if !ok || !ok2 || amount < 0 || math.IsNaN(amount) {
			return nil, fmt.Errorf("%v: %v is no amount", name, v)
		}
		out = append(out, state.Resource{Name: strings.Clone(n), Amount: amount})
	}
	return out, nil
}

// addWorker puts a worker into the state and makes the answer. It runs in the loop.
func (s *Scheduler) addWorker(w *worker, ev *state.AddWorker, in *registration) (msgpack.Map, error) {
	if old := s.workers[w.address]; old != nil {
		if !old.same(w) && old.st.comm.Err() == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Worker already exists " + w.address}
		}
		// The same process has lost its connection before we noticed, or another one has
		// got the address of a dead one.
		if old.st.comm.Err() == nil { // the peer says that it is the same process
			s.log.Warn("worker address taken over", "worker", w.address, "peer", w.st.comm.PeerAddr(), "before", old.st.comm.PeerAddr())
		}
		old.mayReturn = old.same(w)
		s.removeWorker(old, "it registered again", old.same(w), false)
	}
	if other := s.aliases[w.alias]; other != nil {
		if !other.same(w) && other.st.comm.Err() == nil {
			return nil, &nameTaken{w.name}
		}
		// Another process in the place of one that died was faster than the end of that one's stream.
		if other.st.comm.Err() == nil {
			s.log.Warn("worker name taken over", "worker", other.address, "peer", w.st.comm.PeerAddr(), "before", other.st.comm.PeerAddr())
		}
		s.removeWorker(other, "replaced by "+w.address, other.same(w), false)
	}
	ev.Token = w.incarnation
	ev.Returning = s.recovery.Returning(w.address)
	s.apply(ev)
	if ev.Err != nil {
		return nil, &rpc.Exception{Type: "ValueError", Message: ev.Err.Error()}
	}
	w.id, w.lastSeen = ev.Worker, s.loop.Now()
	for len(s.byID) <= int(w.id) {
		s.byID = append(s.byID, nil)
	}
	s.byID[w.id] = w
	s.workers[w.address], s.aliases[w.alias] = w, w
	delete(s.removed, w.address)
	s.totals.workersAdded++
	s.heartbeat(w, in.Metrics, nil)
	s.topics.Publish(msgpack.MapOf("action", "add-worker"), w.address)
	s.topics.Publish(msgpack.MapOf("action", "add-worker", "worker", w.address), "all")
	s.watch(w, true)
	s.journal.Worker(w.address, true)
	s.recovery.Back(w.address)
	s.log.Info("register worker", "address", w.address, "name", w.name, "threads", ev.Threads)
	reply := msgpack.MapOf("status", "OK", "time", val.Seconds(s.loop.Now()), "heartbeat-interval", s.heartbeatInterval(),
		"worker-plugins", s.plugins.Workers())
	reply = append(reply, s.versionCheck(w.versions, w.serverID)...)
	// Our own workers learn which life of the scheduler this is.
	reply.Set("millstream", msgpack.MapOf("id", s.id, "epoch", s.journal.Epoch()))
	return reply, nil
}

// heartbeatInterval is how often workers are asked to report, in seconds: Dask's rule, and
// four times within the time after which a silent worker is taken to be dead.
func (s *Scheduler) heartbeatInterval() float64 {
	d := intervalFor(len(s.workers))
	if ttl := s.cfg.WorkerTTL.Seconds(); ttl > 0 {
		d = min(d, ttl/4)
	}
	return d
}

// intervalFor is Dask's heartbeat interval for so many peers, in seconds.
func intervalFor(n int) float64 {
	switch {
	case n <= 10:
		return 0.5
	case n < 50:
		return 1
	case n < 200:
		return 2
	}
	return float64(n)/200 + 1
}
