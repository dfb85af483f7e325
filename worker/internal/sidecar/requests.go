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

// Requests that only Python can handle are forwarded to the sidecar frame by frame, and so are its replies: they are
// not decoded.

// ForwardRequest returns the reply of the process to a request.
func (s *Sidecar) ForwardRequest(ctx context.Context, r *rpc.Request) (any, error) {
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
			err = fmt.Errorf("worker: Python process of %s died while handling %s: %w", s.w.Address(), r.Op, err)
		}
		return nil, err
	}
	if len(reply.Frames) == 0 {
		return nil, fmt.Errorf("worker: empty reply of the Python process of %s to %s", s.w.Address(), r.Op)
	}
	m := &wire.Message{Frames: make([]wire.Frame, len(reply.Frames))}
	for i, f := range reply.Frames {
		m.Frames[i] = wire.HeapFrame(f)
	}
	return m, nil
}

// hostFrames returns the frames of a message, from which they borrow.
func hostFrames(m *wire.Message) ([][]byte, error) {
	out := make([][]byte, len(m.Frames))
	for i, f := range m.Frames {
		if f.OnDevice() {
			return nil, errors.New("worker: request for the Python process contains GPU memory")
		}
		out[i] = f.Bytes()
	}
	return out, nil
}

// PluginAdd installs a plugin in the process, and keeps it for later processes.
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
	reply, err := s.ForwardRequest(ctx, r)
	if err == nil && name != "" {
		s.keepPlugin(Plugin{name, pickle})
	}
	return reply, err
}

// PluginRemove removes a plugin from the process.
func (s *Sidecar) PluginRemove(ctx context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		return nil, err
	}
	reply, err := s.ForwardRequest(ctx, r)
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

// maxPlugins bounds the plugins that are kept for the next process.
const maxPlugins = 1000

// keepPlugin stores a plugin. It replaces one of the same name.
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

// shufflePlugin is a plugin of every Dask scheduler. It has no effect before the first shuffle.
const shufflePlugin = "shuffle"

// AddPlugins adds the plugins that a scheduler sent at registration. Plugins other than that for shuffles may act
// before the first task: they start the sidecar.
func (s *Sidecar) AddPlugins(plugins []Plugin) {
	start := false
	for _, p := range plugins {
		s.keepPlugin(p)
		start = start || p.Name != shufflePlugin
	}
	if start {
		s.w.Go(func() { _, _ = s.get(s.w.Context) }) // start logs a failure
	}
}

func pluginFrames(plugins []Plugin) [][]byte {
	out := make([][]byte, len(plugins))
	for i, p := range plugins {
		out[i] = p.Pickle
	}
	return out
}

// ForwardMessage forwards a message of the scheduler's stream that Go does not handle, such as those of plugins. It
// reports whether there is a process to receive it.
func (s *Sidecar) ForwardMessage(raw []byte, m *wire.Message) bool {
	inc := s.running()
	if inc == nil {
		return false
	}
	frames := make([][]byte, 1, len(m.Frames))
	frames[0] = append([]byte(nil), raw...) // the message is released before raw is sent
	for _, f := range m.Frames[1:] {
		if f.OnDevice() {
			return false
		}
		frames = append(frames, append([]byte(nil), f.Bytes()...))
	}
	inc.mu.Lock()
	inc.forwarded = append(inc.forwarded, frames)
	first := len(inc.forwarded) == 1
	inc.mu.Unlock()
	if first {
		s.w.Go(func() { _ = inc.sendForwarded(s.w.Context) })
	}
	return true
}

// sendForwarded sends the forwarded messages in order. A run that arrived after a message waits for it: Python receives
// the end of a shuffle before it runs tasks of the next one.
func (i *incarnation) sendForwarded(ctx context.Context) error {
	i.mu.Lock()
	waiting := len(i.forwarded) > 0 || i.sending
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
		messages := i.forwarded
		i.forwarded, i.sending = nil, len(messages) > 0
		i.mu.Unlock()
		if len(messages) == 0 {
			return nil
		}
		for _, frames := range messages {
			if err := i.p.Notify(ctx, "order", nil, frames); err != nil {
				return err
			}
		}
	}
}
