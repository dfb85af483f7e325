package worker

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// Requests that only Python can answer go to the sidecar as they came, frame by frame, and
// its answers leave in the same way: nothing in between is opened.

// inPython wraps the handler of an op: it goes to Python if the worker has one and the
// request is Python's (or if mine is nil), else to mine.
func (w *Worker) inPython(mine rpc.Handler, isPython func(*rpc.Request) bool) rpc.Handler {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		if w.sidecar == nil || isPython != nil && !isPython(r) {
			return mine(ctx, r)
		}
		return w.sidecar.answer(ctx, r)
	}
}

// answer has the sidecar answer a request.
func (s *sidecar) answer(ctx context.Context, r *rpc.Request) (any, error) {
	inc, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	frames, err := hostFrames(r.Message())
	if err != nil {
		return nil, err
	}
	reply, err := inc.p.Call(ctx, "rpc", msgpack.MapOf("peer", r.Comm.PeerAddr()), frames)
	if err != nil {
		if errors.Is(err, pyproc.ErrExited) {
			err = fmt.Errorf("worker: the Python process of %s died while it answered %s: %w", s.w.address, r.Op, err)
		}
		return nil, err
	}
	if len(reply.Frames) == 0 {
		return nil, fmt.Errorf("worker: the Python process of %s had no answer to %s", s.w.address, r.Op)
	}
	m := &wire.Message{Frames: make([]wire.Frame, len(reply.Frames))}
	for i, f := range reply.Frames {
		m.Frames[i] = wire.HeapFrame(f)
	}
	return m, nil
}

// hostFrames are the frames of a message, which they borrow from.
func hostFrames(m *wire.Message) ([][]byte, error) {
	out := make([][]byte, len(m.Frames))
	for i, f := range m.Frames {
		if f.OnDevice() {
			return nil, errors.New("worker: a request for the Python process has memory of a GPU")
		}
		out[i] = f.Bytes()
	}
	return out, nil
}

// pluginAdd has the sidecar set a plugin up, and remembers it for the sidecars to come.
func (s *sidecar) pluginAdd(ctx context.Context, r *rpc.Request) (any, error) {
	var pickle []byte
	var name string
	if _, err := r.Arg("plugin", &pickle); err != nil {
		return nil, err
	}
	if _, err := r.Arg("name", &name); err != nil {
		name = ""
	}
	pickle = append([]byte(nil), pickle...)
	reply, err := s.answer(ctx, r)
	if err == nil && name != "" {
		s.keepPlugin(pyPlugin{name, pickle})
	}
	return reply, err
}

func (s *sidecar) pluginRemove(ctx context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		return nil, err
	}
	reply, err := s.answer(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.plugins {
		if p.name == name {
			s.plugins = append(s.plugins[:i:i], s.plugins[i+1:]...)
			break
		}
	}
	return reply, err
}

// maxPlugins bounds what is kept for the next sidecar.
const maxPlugins = 1000

// keepPlugin remembers a plugin, in the place of one of the same name.
func (s *sidecar) keepPlugin(p pyPlugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		if s.plugins[i].name == p.name {
			s.plugins[i] = p
			return
		}
	}
	if len(s.plugins) < maxPlugins {
		s.plugins = append(s.plugins, p)
	}
}

// shufflePlugin is the plugin that each Dask scheduler has: it waits for the first shuffle.
const shufflePlugin = "shuffle"

// registeredPlugins takes the plugins that a scheduler hands out at registration. All but
// the shuffle's may have something to do before the first task: they start the sidecar.
func (s *sidecar) registeredPlugins(plugins []pyPlugin) {
	start := false
	for _, p := range plugins {
		s.keepPlugin(p)
		start = start || p.name != shufflePlugin
	}
	if start {
		s.w.tasks.Go(func() { _, _ = s.get(s.w.ctx) }) // a failure is in the log
	}
}

func pluginFrames(plugins []pyPlugin) [][]byte {
	out := make([][]byte, len(plugins))
	for i, p := range plugins {
		out[i] = p.pickle
	}
	return out
}

// obey passes an order of the scheduler's stream on that Go does not know: such as those of
// plugins. It reports whether there is somebody to pass it to.
func (s *sidecar) obey(raw []byte, m *wire.Message) bool {
	inc := s.running()
	if inc == nil {
		return false
	}
	frames := make([][]byte, 1, len(m.Frames))
	frames[0] = append([]byte(nil), raw...) // the message is released before it is sent
	for _, f := range m.Frames[1:] {
		if f.OnDevice() {
			return false
		}
		frames = append(frames, append([]byte(nil), f.Bytes()...))
	}
	inc.mu.Lock()
	inc.orders = append(inc.orders, frames)
	first := len(inc.orders) == 1
	inc.mu.Unlock()
	if first {
		s.w.tasks.Go(func() { _ = inc.sendOrders(s.w.ctx) })
	}
	return true
}

// sendOrders passes on what has come, in order. A run that came after an order waits for
// it: Python hears of the end of a shuffle before it runs the tasks of the next.
func (i *incarnation) sendOrders(ctx context.Context) error {
	i.mu.Lock()
	waiting := len(i.orders) > 0 || i.sending
	i.mu.Unlock()
	if !waiting {
		return nil
	}
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		i.mu.Lock()
		orders := i.orders
		i.orders, i.sending = nil, len(orders) > 0
		i.mu.Unlock()
		if len(orders) == 0 {
			return nil
		}
		for _, frames := range orders {
			if err := i.p.Notify(ctx, "order", nil, frames); err != nil {
				return err
			}
		}
	}
}

// runsPython tells a function of Python, which comes as a pickle, from the call of a
// registered one.
func runsPython(r *rpc.Request) bool {
	var spec []byte
	_, err := r.Arg("function", &spec)
	return err == nil && !task.IsSpec(spec)
}

// isPythonActor tells actors in the sidecar from those of Go.
func (w *Worker) isPythonActor(r *rpc.Request) bool {
	raw, ok := r.Field("actor")
	if !ok {
		return false
	}
	key, err := task.ParseKey(raw)
	if err != nil {
		return false
	}
	var mine bool
	w.do(func() { mine = w.actors[key] != nil })
	return !mine
}

// onlyPythonRuns tells that no task of Go runs, whose stack Python would not know.
func (w *Worker) onlyPythonRuns(*rpc.Request) bool {
	only := w.sidecar.running() != nil
	w.do(func() {
		for _, r := range w.executing {
			only = only && r.inSidecar.Load()
		}
	})
	return only
}
