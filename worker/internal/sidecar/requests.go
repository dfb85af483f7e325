package sidecar

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Requests that only Python can answer go to the sidecar as they came, frame by frame, and
// its answers leave in the same way: nothing in between is opened.

// Answer has the process answer a request.
func (s *Sidecar) Answer(ctx context.Context, r *rpc.Request) (any, error) {
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
			err = fmt.Errorf("worker: the Python process of %s died while it answered %s: %w", s.w.Address(), r.Op, err)
		}
		return nil, err
	}
	if len(reply.Frames) == 0 {
		return nil, fmt.Errorf("worker: the Python process of %s had no answer to %s", s.w.Address(), r.Op)
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

// PluginAdd has the process set a plugin up, and remembers it for the processes to come.
func (s *Sidecar) PluginAdd(ctx context.Context, r *rpc.Request) (any, error) {
	var pickle []byte
	var name string
	if _, err := r.Arg("plugin", &pickle); err != nil {
		return nil, err
	}
	if _, err := r.Arg("name", &name); err != nil {
		name = ""
	}
	pickle = append([]byte(nil), pickle...)
	reply, err := s.Answer(ctx, r)
	if err == nil && name != "" {
		s.keepPlugin(Plugin{name, pickle})
	}
	return reply, err
}

// PluginRemove has the process remove a plugin.
func (s *Sidecar) PluginRemove(ctx context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		return nil, err
	}
	reply, err := s.Answer(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.plugins {
		if p.Name == name {
			s.plugins = append(s.plugins[:i:i], s.plugins[i+1:]...)
			break
		}
	}
	return reply, err
}

// maxPlugins bounds what is kept for the next sidecar.
const maxPlugins = 1000

// keepPlugin remembers a plugin, in the place of one of the same name.
func (s *Sidecar) keepPlugin(p Plugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		if s.plugins[i].Name == p.Name {
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

// Registered takes the plugins that a scheduler hands out at registration. All but
// the shuffle's may have something to do before the first task: they start the sidecar.
func (s *Sidecar) Registered(plugins []Plugin) {
	start := false
	for _, p := range plugins {
		s.keepPlugin(p)
		start = start || p.Name != shufflePlugin
	}
	if start {
		s.w.Go(func() { _, _ = s.get(s.w.Context) }) // a failure is in the log
	}
}

func pluginFrames(plugins []Plugin) [][]byte {
	out := make([][]byte, len(plugins))
	for i, p := range plugins {
		out[i] = p.Pickle
	}
	return out
}

// Order passes on an order of the scheduler's stream that Go does not know, such as those of plugins. It reports
// whether there is a process to pass it to.
func (s *Sidecar) Order(raw []byte, m *wire.Message) bool {
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
		s.w.Go(func() { _ = inc.sendOrders(s.w.Context) })
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
