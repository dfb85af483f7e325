package ucxcomm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm/ucxcomm/internal/ucxmux"
	"go.millstream.dev/ucx"
)

// engine is the UCX of a process for one set of settings: a context and a worker that connect to other UCX programs
// (with UCX's own choice of transports), and, once two Millstream programs are connected, a context and a worker with
// Millstream's choice of transports.
//
// Comms and listeners hold references. The engine ends engineLinger after the last one is released, so that programs
// that dial one comm after the other do not start UCX each time.
type engine struct {
	key     string
	library string
	options map[string]string
	polling bool

	made chan struct{} // closed when worker or err is set
	err  error
	ctx  *ucx.Context
	meet *ucx.Worker

	data dataWorker

	byFile bool        // connects by worker address: one worker does everything
	mux    *ucxmux.Mux // of those; nil otherwise

	refs  int         // guarded by engines.mu
	timer *time.Timer // ends it; guarded by engines.mu
}

// engineLinger is a variable for tests only.
var engineLinger = time.Second

var engines struct {
	mu sync.Mutex
	m  map[string]*engine
}

// openEngine returns the engine for the settings with a reference for the caller.
func openEngine(ctx context.Context, s Settings) (*engine, error) {
	key := s.key()
	engines.mu.Lock()
	e := engines.m[key]
	first := e == nil
	if first {
		e = &engine{key: key, library: s.Library, options: s.options(), polling: s.Polling, byFile: s.byFile,
			made: make(chan struct{})}
		if engines.m == nil {
			engines.m = map[string]*engine{}
		}
		engines.m[key] = e
	}
	e.refs++
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	engines.mu.Unlock()
	if first {
		if e.byFile {
			e.startByFile()
		} else {
			e.ctx, e.meet, e.err = e.start(true, ucx.AllFeatures)
		}
		close(e.made)
	}
	select {
	case <-e.made:
	case <-ctx.Done():
		e.release()
		return nil, context.Cause(ctx)
	}
	if e.err != nil {
		e.release()
		return nil, e.err
	}
	return e, nil
}

// retain adds a reference; the caller has one.
func (e *engine) retain() *engine {
	engines.mu.Lock()
	e.refs++
	engines.mu.Unlock()
	return e
}

// start creates a context and a worker.
func (e *engine) start(plain bool, features ucx.Features) (*ucx.Context, *ucx.Worker, error) {
	c, err := ucx.NewContext(ucx.Config{
		Name: "millstream-comm", Library: e.library, Options: e.options,
		PlainTransports: plain, Features: features,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ucxcomm: no UCX: %w", err)
	}
	cfg := ucx.WorkerConfig{}
	if e.polling && (!plain || e.byFile) {
		cfg.Progress = ucx.Polling // only data connections are urgent
	}
	w, err := c.NewWorker(cfg)
	if err != nil {
		_ = c.Close()
		return nil, nil, fmt.Errorf("ucxcomm: no UCX: %w", err)
	}
	track(w)
	return c, w, nil
}

// release drops a reference.
func (e *engine) release() {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e.refs--
	if e.refs > 0 {
		return
	}
	if e.failed() { // not cached: the next caller tries again
		delete(engines.m, e.key)
		return
	}
	e.timer = time.AfterFunc(engineLinger, e.expire)
}

func (e *engine) failed() bool {
	select {
	case <-e.made:
		return e.err != nil
	default:
		return false // its creator holds a reference
	}
}

// expire ends the engine unless it is in use again.
func (e *engine) expire() {
	engines.mu.Lock()
	if e.refs > 0 || engines.m[e.key] != e {
		engines.mu.Unlock()
		return
	}
	delete(engines.m, e.key)
	engines.mu.Unlock()
	e.data.close()
	if e.mux != nil {
		e.mux.Close()
	}
	closeTracked(e.meet)
	_ = e.ctx.Close()
}

// dataWorker is the worker of data connections, created on first use.
type dataWorker struct {
	once sync.Once
	ctx  *ucx.Context
	w    *ucx.Worker
	err  error
}

// dataUCX returns the worker of data connections.
func (e *engine) dataUCX() (*ucx.Worker, error) {
	if e.byFile {
		return e.meet, nil
	}
	l := &e.data
	l.once.Do(func() {
		// Without streams UCX does not limit the number of endpoints between two workers.
		l.ctx, l.w, l.err = e.start(false, ucx.AllFeatures&^ucx.Stream)
	})
	return l.w, l.err
}

func (l *dataWorker) close() {
	if l.w != nil {
		closeTracked(l.w)
		_ = l.ctx.Close()
	}
}
