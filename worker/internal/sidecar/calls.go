package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// handlers returns the calls that the sidecar may make, for the code that runs in it. That code belongs to users: its
// arguments are checked like those of a peer.
func (s *Sidecar) handlers(inc *incarnation) map[string]pyproc.Handler {
	return map[string]pyproc.Handler{
		"secede": s.onSecede,
		"stream": s.onStream,
		"log":    s.onLog,
		"end":    s.onEnd,
		"has":    s.onHas,
		"keys":   s.onKeys,
		"fetch":  s.onFetch,
		"put": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			return s.onPut(ctx, inc, m)
		},
		"resources": s.onResources,
		"state": func(context.Context, *pyproc.Message) (any, [][]byte, error) {
			m, err := s.w.State()
			return m, nil, err
		},
	}
}

// sideArgs are the arguments of all calls of the sidecar.
type sideArgs struct {
	run      uint64
	key      task.Key
	handle   uint64
	nbytes   int64
	level    int64
	name     string
	text     string
	reason   string
	graceful bool
}

func (a *sideArgs) read(body []byte) error {
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadName(); err != nil {
			break
		}
		switch string(k) {
		case "run":
			a.run, err = r.ReadUint()
		case "key":
			var b []byte
			b, err = r.ReadKey(nil)
			a.key = task.Key(b)
		case "handle":
			a.handle, err = r.ReadUint()
		case "nbytes":
			a.nbytes, err = r.ReadInt()
		case "level":
			a.level, err = r.ReadInt()
		case "name":
			a.name, err = r.ReadString()
		case "text":
			a.text, err = r.ReadString()
		case "reason":
			a.reason, err = r.ReadString()
		case "graceful":
			a.graceful, err = r.ReadBool()
		default:
			err = r.Skip()
		}
	}
	if err != nil {
		return fmt.Errorf("worker: call of the Python process: %w", err)
	}
	return nil
}

func (s *Sidecar) onSecede(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	err := a.read(m.Body)
	if err == nil {
		s.secede(ctx, a.run)
	}
	return nil, nil, err
}

// onLog adds a record of the Python process to the log of the worker.
func (s *Sidecar) onLog(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	if err := a.read(m.Body); err != nil {
		return nil, nil, err
	}
	level := slog.LevelDebug
	switch {
	case a.level >= 40:
		level = slog.LevelError
	case a.level >= 30:
		level = slog.LevelWarn
	case a.level >= 20:
		level = slog.LevelInfo
	}
	s.log.Log(ctx, level, a.text, "logger", a.name)
	return nil, nil, nil
}

// onStream sends a message of the Python process to the scheduler.
func (s *Sidecar) onStream(_ context.Context, m *pyproc.Message) (any, [][]byte, error) {
	if len(m.Frames) == 0 {
		return nil, nil, errors.New("worker: message of the Python process to the scheduler has no body")
	}
	r := msgpack.NewReader(m.Frames[0])
	if r.Kind() != msgpack.MapKind {
		return nil, nil, errors.New("worker: message of the Python process to the scheduler is not a map")
	}
	if err := r.Skip(); err != nil {
		return nil, nil, err
	}
	if err := r.End(); err != nil {
		return nil, nil, err
	}
	s.w.Send(m.Frames[0], m.Frames[1:])
	return nil, nil, nil
}

// onEnd closes the worker at the request of code in the sidecar.
func (s *Sidecar) onEnd(_ context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	if err := a.read(m.Body); err != nil {
		return nil, nil, err
	}
	s.w.End(a.graceful, a.reason)
	return nil, nil, nil
}

func (s *Sidecar) onHas(_ context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	err := a.read(m.Body)
	return s.data.Has(a.key), nil, err
}

func (s *Sidecar) onKeys(context.Context, *pyproc.Message) (any, [][]byte, error) {
	keys := s.data.Keys()
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Value()
	}
	return out, nil, nil
}

// onFetch returns a value that is not in the sidecar.
func (s *Sidecar) onFetch(_ context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	if err := a.read(m.Body); err != nil {
		return nil, nil, err
	}
	e := s.data.Hold(a.key)
	if e == nil {
		return nil, nil, nil
	}
	defer s.data.Release(e)
	v, err := e.Open()
	if err != nil {
		return nil, nil, err
	}
	if b, ok := v.AppendBody(msgpack.AppendString(msgpack.AppendMapHeader(nil, 1), "value")); ok {
		return msgpack.Raw(b), nil, nil
	}
	x, err := v.Retained()
	if err != nil {
		return nil, nil, err
	}
	defer x.Release()
	frames := [][]byte{x.Header}
	for _, f := range x.Frames {
		if f.OnDevice() {
			return nil, nil, errors.New("worker: value in GPU memory cannot be sent to the Python process")
		}
		frames = append(frames, append([]byte(nil), f.Bytes()...)) // the entry is released before the frames are sent
	}
	return msgpack.Map{}, frames, nil
}

// onPut stores a value that code in the sidecar has put into the data of the worker.
func (s *Sidecar) onPut(_ context.Context, inc *incarnation, m *pyproc.Message) (any, [][]byte, error) {
	var a sideArgs
	if err := a.read(m.Body); err != nil {
		return nil, nil, err
	}
	if a.key == "" || a.handle%2 == 0 || a.nbytes < 0 {
		return nil, nil,
			errors.New("worker: Python process put a value without a key, or with an invalid handle")
	}
	v := &value{inc: inc, handle: a.handle, key: a.key}
	v.value = task.NewRemote(v, a.nbytes, "")
	if !inc.add(v) {
		return nil, nil, pyproc.ErrExited
	}
	s.w.Store(v.value, state.Stored{Key: a.key, NBytes: a.nbytes})
	return nil, nil, nil
}

// onResources sets the resources of the worker.
func (s *Sidecar) onResources(_ context.Context, m *pyproc.Message) (any, [][]byte, error) {
	v, err := msgpack.Decode(m.Body)
	list, ok := v.(msgpack.Map)
	if err != nil || !ok {
		return nil, nil, fmt.Errorf("worker: invalid resources of the Python process: %v", err)
	}
	var out []state.Resource
	for k, v := range list.All() {
		name, ok := k.(string)
		amount := number(v)
		if !ok || !(amount >= 0 && amount < 1e300) {
			return nil, nil, fmt.Errorf("worker: resource %v of the Python process is %v; use a non-negative number", k,
				v)
		}
		out = append(out, state.Resource{Name: name, Amount: amount})
	}
	s.w.SetResources(out)
	return nil, nil, nil
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

// sweep sends the handles of values to free that are still waiting for a full batch.
func (s *Sidecar) sweep() {
	if inc := s.running(); inc != nil {
		inc.flush()
	}
}

// sweepPause is the interval of Sweep.
const sweepPause = 200 * time.Millisecond

// Sweep sends the handles of values to free periodically, until the worker closes.
func (s *Sidecar) Sweep() {
	t := time.NewTicker(sweepPause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.sweep()
		case <-s.w.Context.Done():
			return
		}
	}
}
