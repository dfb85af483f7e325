package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/sidecar"
	"go.millstream.dev/worker/internal/stream"
)

// session is the worker's stream with one scheduler.
type session struct {
	comm       comm.Comm
	send       *stream.Sender
	millstream bool          // the scheduler is Millstream's, and may come back
	credit     chan struct{} // one for each batch that waits for a turn
	failure    atomic.Pointer[error]
	over       context.Context // ends with the stream
	end        context.CancelFunc
}

// maxBatches is how many batches of the scheduler may wait for a turn: behind it the stream
// is not read, and the scheduler notices.
const maxBatches = 64

// fail ends the session because the scheduler speaks something else, or closed it.
func (s *session) fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	s.comm.Abort()
}

// nameValue is the worker's name as it travels.
func nameValue(name, address string) any {
	if name == "" {
		return address
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && strconv.FormatInt(n, 10) == name {
		return n
	}
	return name
}

// connect registers with the scheduler, and tries again until ctx or the death-timeout ends.
func (w *Worker) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })()
	if t := w.cfg.DeathTimeout; t > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t, fmt.Errorf("worker: no scheduler at %s within the death-timeout of %v: %w", w.cfg.Scheduler, t, ErrSchedulerLost))
		defer stop()
	}
	pause := 50 * time.Millisecond
	for {
		s, err := w.register(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
		if !retriable(err) {
			return nil, err
		}
		w.log.Info("waiting to connect", "scheduler", w.cfg.Scheduler, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		pause = min(2*pause, time.Second)
	}
}

// retriable tells whether another attempt could help: not if the scheduler said no, and not
// if the address or a certificate is wrong.
func retriable(err error) bool {
	var address *comm.AddressError
	var handshake *comm.HandshakeError
	var connect *comm.ConnectError
	switch {
	case errors.Is(err, ErrRefused), errors.As(err, &address), errors.As(err, &handshake):
		return false
	case errors.As(err, &connect), errors.Is(err, comm.ErrClosed):
		return true
	}
	var call *rpc.CallError
	return errors.As(err, &call)
}

// registered is the scheduler's answer to register-worker.
type registered struct {
	status, message, warning string
	interval                 time.Duration
	time                     float64
	plugins                  []sidecar.Plugin
}

// register connects once and turns the connection into the worker's stream.
func (w *Worker) register(ctx context.Context) (*session, error) {
	c, err := w.cfg.Network.Dial(ctx, w.cfg.Scheduler, w.cfg.Dial.To(secure.Scheduler))
	if err != nil {
		return nil, err
	}
	if err := w.checkRelease(ctx, c); err != nil {
		c.Abort()
		return nil, err
	}
	begun := time.Now()
	if err := rpc.Notify(ctx, c, "register-worker", w.registration()); err != nil {
		return nil, err
	}
	m, err := c.Read(ctx)
	if err != nil {
		c.Abort()
		return nil, &rpc.CallError{Op: "register-worker", Peer: w.cfg.Scheduler, Sent: true, Err: err}
	}
	defer m.Release()
	reply, err := readRegistered(m)
	if err != nil {
		c.Abort()
		return nil, err
	}
	if reply.status != "OK" {
		_ = c.Close()
		return nil, fmt.Errorf("%w: %s", ErrRefused, reply.message)
	}
	if reply.warning != "" {
		w.log.Warn("the scheduler warns", "warning", reply.warning)
	}
	if w.sidecar != nil {
		w.sidecar.Registered(reply.plugins)
	}
	w.latency.observe(time.Since(begun))
	w.latency.interval.Store(int64(reply.interval))
	s := &session{comm: c, send: stream.NewSender(c), millstream: c.Info().Millstream != nil, credit: make(chan struct{}, maxBatches)}
	s.over, s.end = context.WithCancel(context.Background())
	return s, nil
}

func readRegistered(m *wire.Message) (registered, error) {
	var r registered
	v, err := wire.Decode(m, wire.DecodeOptions{KeepPickled: true})
	if err != nil {
		return r, fmt.Errorf("worker: the answer to register-worker: %w", err)
	}
	if err := rpc.ReplyError("register-worker", "the scheduler", v); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	d, ok := v.(wire.Dict)
	if !ok {
		return r, fmt.Errorf("%w: the answer to register-worker is a %T: is there a scheduler at this address?", ErrRefused, v)
	}
	r.status, r.message, r.warning = d.GetString("status"), d.GetString("message"), d.GetString("warning")
	if x, ok := d.Get("heartbeat-interval"); ok {
		r.interval = time.Duration(number(x) * float64(time.Second))
	}
	if x, ok := d.Get("time"); ok {
		r.time = number(x)
	}
	if x, ok := d.Get("worker-plugins"); ok {
		list, _ := x.(wire.Dict)
		for name, v := range list.All() {
			if text, ok := name.(string); ok {
				if b, ok := v.([]byte); ok {
					r.plugins = append(r.plugins, sidecar.Plugin{Name: text, Pickle: append([]byte(nil), b...)})
				}
			}
		}
	}
	return r, nil
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// registration is what the worker tells about itself.
func (w *Worker) registration() msgpack.Map {
	status := w.Status()
	if status == statusInit {
		status = statusRunning
	}
	resources := msgpack.Map{}
	for k, v := range w.cfg.Resources {
		resources.Set(k, v)
	}
	services := msgpack.Map{}
	if w.http != nil {
		services.Set("dashboard", w.http.Port)
	}
	var nanny, limit any
	if w.cfg.Nanny != "" {
		nanny = w.cfg.Nanny
	}
	if w.cfg.MemoryLimit > 0 {
		limit = w.cfg.MemoryLimit
	}
	now := w.snapshot()
	own := msgpack.MapOf("v", 1, "registry", task.Hash(), "functions", task.Names(), "signatures", task.Signatures(), "build", task.BuildText(),
		"lanes", len(w.Lanes()), "python", w.sidecar != nil, "death-token", w.cfg.DeathToken, "incarnation", w.incarnation)
	return msgpack.MapOf(
		"address", w.address, "status", status, "nthreads", w.cfg.Threads, "name", w.name, "now", record.Unix(time.Now()),
		"resources", resources, "memory_limit", limit, "local_directory", w.memory.Directory(), "services", services, "nanny", nanny,
		"pid", os.Getpid(), "versions", w.versions(), "metrics", now.Heartbeat(w.transfers.Bandwidths(), w.usage.Recent()), "extra", msgpack.MapOf("millstream", own),
		"stimulus_id", "worker-connect-"+w.id, "server_id", w.id)
}

// attach makes a session the worker's own.
func (w *Worker) attach(s *session, first bool) {
	w.do(func() {
		w.session = s
		if first {
			w.setStatus(statusRunning)
			return
		}
		w.apply(&state.Reattach{Stimulus: w.stimulus})
		if st := w.Status(); st != statusRunning {
			w.out.Status(st, w.stimulus)
		}
	})
}

// supervise reads the scheduler's stream until the worker ends, and finds the scheduler
// again after it was lost.
func (w *Worker) supervise(s *session) {
	for {
		err := w.read(s)
		s.end()
		s.send.Abort()
		if w.ctx.Err() != nil || w.closing.Load() {
			return
		}
		w.do(func() {
			w.drain(nil) // its last words, which may be that the worker is to end
			w.session = nil
			w.out.Reset()
			w.apply(&state.SchedulerLost{Stimulus: w.stimulus})
		})
		if w.closing.Load() {
			return
		}
		if !s.millstream {
			// Dask's scheduler has forgotten the worker and everything on it.
			w.endLater(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.log.Warn("lost the scheduler; data is kept until it is back", "scheduler", w.cfg.Scheduler, "error", err)
		if s, err = w.connect(w.ctx); err != nil {
			w.endLater(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.attach(s, false)
		w.log.Info("back with the scheduler", "scheduler", w.cfg.Scheduler)
	}
}

// read hands the stream's batches to the turn until the stream ends, and says why it did.
func (w *Worker) read(s *session) error {
	for {
		m, err := s.comm.Read(w.ctx)
		if err != nil {
			if f := s.failure.Load(); f != nil {
				return *f
			}
			return err
		}
		select {
		case s.credit <- struct{}{}:
		case <-w.ctx.Done():
			m.Release()
			return context.Cause(w.ctx)
		}
		w.hand(item{msg: m, session: s})
	}
}

// hand leaves an item in the inbox and handles all that is there, unless somebody else is at
// it.
func (w *Worker) hand(i item) {
	if !w.inbox.putQuietly(i) {
		return
	}
	if !w.turn.TryLock() {
		w.inbox.poke()
		return
	}
	defer w.turn.Unlock()
	w.begin(nil)
	w.drain(nil)
	w.finish()
}
