package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

type pair struct{ X, Y int }

func addHandlers(s *Server) {
	Handle(s, "add", func(_ context.Context, _ *Request, in pair) (int, error) { return in.X + in.Y, nil })
	s.Handle("fail", func(context.Context, *Request) (any, error) { return nil, errors.New("it's broken") })
	s.Handle("value_error", func(context.Context, *Request) (any, error) {
		return nil, fmt.Errorf("outer: %w", &Exception{"ValueError", "bad value"})
	})
	s.Handle("odd_error", func(context.Context, *Request) (any, error) {
		return nil, &Exception{"os.system", "no such class may reach a peer"}
	})
	s.Handle("python_error", func(context.Context, *Request) (any, error) {
		return nil, fmt.Errorf("a task failed: %w", pickle.NewException("my.module", "OddError", "seen in a task"))
	})
	s.Handle("timeout", func(context.Context, *Request) (any, error) { return nil, os.ErrDeadlineExceeded })
	s.Handle("panic", func(context.Context, *Request) (any, error) { panic("out of cheese") })
	s.Handle("unsendable", func(context.Context, *Request) (any, error) { return make(chan int), nil })
	s.Handle("quiet", func(context.Context, *Request) (any, error) { return NoReply, nil })
}

func TestTypedCall(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		addHandlers(r.server)
		var sum int
		if err := r.pool.Call(r.Context(), r.addr, "add", pair{2, 3}, &sum); err != nil || sum != 5 {
			t.Errorf("2 + 3 = %d, %v", sum, err)
		}
		for name, c := range map[string]struct {
			args any
			says string
		}{
			"missing":    {obj{"x": 1}, `argument "y": missing a required argument`},
			"unexpected": {obj{"x": 1, "y": 2, "z": 3}, `argument "z": unexpected keyword argument`},
			"type":       {obj{"x": 1, "y": "two"}, `argument "y": got a string, want int`},
		} {
			err := r.pool.Call(r.Context(), r.addr, "add", c.args, &sum)
			var remote *RemoteError
			if !errors.As(err, &remote) || remote.Type != "TypeError" || !strings.Contains(remote.Message, c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestStructs: structs with tags travel as maps, in arguments and in results.
func TestStructs(t *testing.T) {
	type inner struct {
		Name string        `rpc:"name"`
		Wait time.Duration `rpc:"wait,optional"`
	}
	type outer struct {
		In   inner  `rpc:"in"`
		Also *inner `rpc:"also"`
		None *inner `rpc:"none"`
	}
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		Handle(r.server, "same", func(_ context.Context, _ *Request, in outer) (*outer, error) { return &in, nil })
		sent := outer{In: inner{"a", time.Minute}, Also: &inner{"b", 0}}
		var got outer
		if err := r.pool.Call(r.Context(), r.addr, "same", sent, &got); err != nil || got.In != sent.In ||
			got.Also == nil || *got.Also != *sent.Also || got.None != nil {
			t.Errorf("%+v became %+v, %v", sent, got, err)
		}
		var raw any
		if err := r.pool.Call(r.Context(), r.addr, "same", sent, &raw); err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(raw); s != "[{in [{name a} {wait 60}]} {also [{name b}]}]" {
			t.Errorf("on the wire it is %s", s)
		}
	})
}

// TestRawHandlers: a message is sent as it is, and given back whether it is sent or not.
func TestRawHandlers(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		var freed atomic.Int32
		r.server.Handle("raw", func(_ context.Context, q *Request) (any, error) {
			buffer := mem.NewRegion(mem.RegionConfig{Heap: []byte("payload"), Free: func() { freed.Add(1) }}).Buffer()
			return &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{7}), wire.BufferFrame(buffer)}}, nil
		})
		m, err := r.pool.Do(r.Context(), r.addr, "raw", obj{"op": "raw"})
		if err != nil || len(m.Frames) != 2 || string(m.Frames[1].Bytes()) != "payload" {
			t.Fatalf("%v, %v", m, err)
		}
		m.Release()
		if err := r.pool.Notify(r.Context(), r.addr, "raw", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if freed.Load() != 2 {
			t.Errorf("%d of 2 answers were given back", freed.Load())
		}
	})
}

func TestErrorsCarryOver(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		addHandlers(r.server)
		for op, c := range map[string]struct {
			typ, text, trace string
			is               error
		}{
			"fail":         {"RuntimeError", "it's broken", "", nil},
			"value_error":  {"ValueError", "bad value", "", nil},
			"odd_error":    {"RuntimeError", "os.system: no such class may reach a peer", "", nil},
			"python_error": {"my.module.OddError", "seen in a task", "", nil},
			"timeout":      {"TimeoutError", "i/o timeout", "", os.ErrDeadlineExceeded},
			"panic":        {"RuntimeError", "panic: out of cheese", "addHandlers", nil},
			"unsendable":   {"RuntimeError", "cannot encode the result", "", nil},
			"nonsense":     {"LookupError", `rpc: unknown op "nonsense"`, "", ErrUnknownOp},
		} {
			err := r.pool.Call(r.Context(), r.addr, op, nil, nil)
			var e *RemoteError
			if !errors.As(err, &e) {
				t.Errorf("%s: %v", op, err)
				continue
			}
			if e.Type != c.typ || !strings.HasPrefix(e.Message, c.text) || e.Op != op || e.Peer != r.addr {
				t.Errorf("%s: %#v", op, e)
			}
			if !strings.Contains(e.Traceback, c.trace) {
				t.Errorf("%s: traceback %q has no %q", op, e.Traceback, c.trace)
			}
			if full := fmt.Sprintf("%+v", e); c.trace != "" && !strings.Contains(full, c.trace) {
				t.Errorf("%s: %%+v has no traceback: %s", op, full)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: errors.Is does not find %v", op, c.is)
			}
			if c.is == nil && errors.Is(err, ErrUnknownOp) {
				t.Errorf("%s: errors.Is finds ErrUnknownOp", op)
			}
		}
		if s := r.server.Stats(); s.Unknown != 1 || s.Errors != 6 || s.Requests != 8 {
			t.Errorf("stats %+v", s)
		}
		if s := r.pool.Stats(); s.Dials != 1 {
			t.Errorf("errors of handlers cost comms: %+v", s)
		}
	})
}

// TestUnknownOpOfPython: what Dask answers, so that Python peers see what they know.
func TestUnknownOpOfPython(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.net.Host("snake").Python(3, 11, 7)
		c := r.dial("snake")
		defer c.Close()
		r.say(c, obj{"op": "nonsense", "reply": true})
		if v := r.hear(c); v != nil {
			t.Errorf("a Python peer got %v, want None", v)
		}
		r.say(c, obj{"op": "echo", "data": 7})
		if v := r.hear(c); v != int64(7) {
			t.Errorf("echo after an unknown op: %v", v)
		}
	})
}

// TestNilReply: a caller that wants a value learns that there is none.
func TestNilReply(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.server.Handle("none", func(context.Context, *Request) (any, error) { return nil, nil })
		var n int
		if err := r.pool.Call(r.Context(), r.addr, "none", nil, &n); !errors.Is(err, ErrNilReply) {
			t.Errorf("None into an int: %v", err)
		}
		v := any("old")
		if err := r.pool.Call(r.Context(), r.addr, "none", nil, &v); err != nil || v != nil {
			t.Errorf("None into any: %v, %v", v, err)
		}
	})
}

// TestProtocol: reply, close and the op "close", as Dask's handle_comm has them.
func TestProtocol(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		addHandlers(r.server)
		c := r.dial("client")
		r.say(c, obj{"op": "add", "x": 1, "y": 1, "reply": false})
		r.say(c, obj{"op": "quiet"})
		r.say(c, obj{"op": "add", "x": 1, "y": 2})
		if v := r.hear(c); v != int64(3) {
			t.Errorf("the first answer is %v, want the third request's", v)
		}
		r.say(c, obj{"op": "fail", "reply": false})
		r.say(c, obj{"op": "add", "x": 1, "y": 3, "close": true})
		if v := r.hear(c); v != int64(4) {
			t.Errorf("answer before close: %v", v)
		}
		if _, err := c.Read(r.Context()); !errors.Is(err, comm.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		for _, reply := range []bool{true, false} {
			c = r.dial("client")
			r.say(c, obj{"op": "close", "reply": reply})
			if reply {
				if v := r.hear(c); v != "OK" {
					t.Errorf("close answers %v", v)
				}
			}
			if _, err := c.Read(r.Context()); !errors.Is(err, comm.ErrClosed) {
				t.Errorf("after op close: %v", err)
			}
		}
		if n := r.server.Stats().Comms; n != 0 {
			t.Errorf("%d comms are served", n)
		}
	})
}

func TestCommonHandlers(t *testing.T) {
	cfg := Config{Type: "Scheduler", ID: "Scheduler-1", Identity: func() msgpack.Map {
		return msgpack.Map{{Key: "n_workers", Value: 0}}
	}}
	bubble(t, cfg, PoolConfig{}, func(r *rig) {
		var id struct {
			Type, ID string
			NWorkers *int `rpc:"n_workers"`
		}
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, &id); err != nil || id.Type != "Scheduler" ||
			id.ID != "Scheduler-1" || id.NWorkers == nil {
			t.Errorf("identity %+v, %v", id, err)
		}
		var state msgpack.Map
		if err := r.pool.Call(r.Context(), r.addr, "dump_state", obj{"exclude": []string{"uptime"}},
			&state); err != nil {
			t.Error(err)
		}
		if state.GetString("status") != "running" || state.GetString("address") != r.addr || state.Has("uptime") {
			t.Errorf("dump_state %v", state)
		}
		var back any
		if err := r.pool.Call(r.Context(), r.addr, "echo", obj{"data": []any{1, "two", []byte{3}}}, &back); err != nil {
			t.Error(err)
		}
		if !msgpack.Equal(back, []any{int64(1), "two", []byte{3}}) {
			t.Errorf("echo %v", back)
		}
		if err := r.pool.Call(r.Context(), r.addr, "echo", obj{"tata": 1}, &back); err == nil {
			t.Error("echo took an argument that it has not")
		}
		if ops := fmt.Sprint(r.server.Ops()); ops != "[connection_stream dump_state echo identity]" {
			t.Errorf("ops %s", ops)
		}
	})
}

func TestBlockedAndAuthorized(t *testing.T) {
	cfg := Config{Blocked: []string{"add"}, Authorize: func(_ context.Context, r *Request) error {
		if strings.HasPrefix(r.Comm.PeerAddr(), "sim://stranger:") {
			return fmt.Errorf("%s: %w", r.Op, fs.ErrPermission)
		}
		return nil
	}}
	bubble(t, cfg, PoolConfig{}, func(r *rig) {
		addHandlers(r.server)
		var e *RemoteError
		if err := r.pool.Call(r.Context(), r.addr, "add", pair{1, 2}, nil); !errors.As(err, &e) ||
			e.Type != "ValueError" || !strings.Contains(e.Message, "disallowed") {
			t.Errorf("blocked op: %v", err)
		}
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
			t.Error(err)
		}
		stranger := NewPool(r.net.Host("stranger"), PoolConfig{})
		defer stranger.Close()
		if err := stranger.Call(r.Context(), r.addr, "identity", nil, nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a stranger's call: %v", err)
		}
		if s := r.server.Stats(); s.Refused != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestObserve(t *testing.T) {
	var seen []string
	cfg := Config{Observe: func(o Observation) {
		seen = append(seen, fmt.Sprintf("%s %v %v %v", o.Op, strings.HasPrefix(o.Peer, "sim://client:"), o.Took,
			o.Err != nil))
	}}
	bubble(t, cfg, PoolConfig{}, func(r *rig) {
		r.slow()
		for _, op := range []string{"identity", "slow", "nonsense"} {
			_ = r.pool.Call(r.Context(), r.addr, op, nil, nil)
		}
		synctest.Wait()
	})
	if got, want := fmt.Sprint(seen), "[identity true 0s false slow true 1s false nonsense true 0s true]"; got != want {
		t.Errorf("saw %s, want %s", got, want)
	}
}

func TestMaxRunning(t *testing.T) {
	bubble(t, Config{MaxRunning: 3}, PoolConfig{}, func(r *rig) {
		var now, most atomic.Int32
		r.server.Handle("slow", func(ctx context.Context, _ *Request) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			return true, nil
		})
		done := make(chan error)
		for range 10 {
			go func() { done <- r.pool.Call(r.Context(), r.addr, "slow", nil, nil) }()
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 3 {
			t.Errorf("%d handlers ran at once, the limit is 3", most.Load())
		}
	})
}

func TestShutdownFinishesWhatRuns(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.server.Handle("slow", func(ctx context.Context, _ *Request) (any, error) {
			time.Sleep(5 * time.Second)
			return "done", ctx.Err()
		})
		idle := r.dial("idle")
		answer := make(chan error, 1)
		var got string
		go func() { answer <- r.pool.Call(r.Context(), r.addr, "slow", nil, &got) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-answer; err != nil || got != "done" {
			t.Errorf("the running call: %q, %v", got, err)
		}
		if err := <-r.served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		time.Sleep(time.Second)
		if idle.Err() == nil {
			t.Error("an idle comm survived")
		}
		if err := r.server.ServeComm(r.Context(), idle); !errors.Is(err, ErrClosed) {
			t.Errorf("a comm for a closed server: %v", err)
		}
	})
}

func TestShutdownDeadline(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		ended := make(chan struct{})
		r.server.Handle("hang", func(ctx context.Context, _ *Request) (any, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		})
		r.server.Handle("stream", func(ctx context.Context, q *Request) (any, error) {
			q.Takeover()
			<-ctx.Done()
			return NoReply, nil
		})
		answer := make(chan error, 2)
		go func() { answer <- r.pool.Call(r.Context(), r.addr, "hang", nil, nil) }()
		go func() { answer <- r.pool.Call(r.Context(), r.addr, "stream", nil, nil) }()
		time.Sleep(time.Second)
		if s := r.server.Stats(); s.Running != 1 || s.Streams != 1 {
			t.Errorf("stats %+v", s)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		<-ended
		for range 2 {
			if err := <-answer; err == nil {
				t.Error("a call that was cut off succeeded")
			}
		}
		synctest.Wait()
	})
}

// TestServeEnds: Serve says why it has ended, and its context is that of its handlers.
func TestServeEnds(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.server.Handle("hang", func(ctx context.Context, _ *Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithCancel(r.Context())
		l, err := r.net.Host("server").Listen(ctx, "sim://server:1", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		served, called := make(chan error, 1), make(chan error, 1)
		go func() { served <- r.server.Serve(ctx, l) }()
		go func() { called <- r.pool.Call(r.Context(), l.ContactAddr(), "hang", nil, nil) }()
		time.Sleep(time.Second)
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve with an ended context: %v", err)
		}
		if err := <-called; err == nil {
			t.Error("a call that was cut off succeeded")
		}
		// The other listener goes on, until its host dies.
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
			t.Error(err)
		}
		r.net.Kill("server")
		if err := <-r.served; !errors.Is(err, comm.ErrClosed) || errors.Is(err, ErrClosed) {
			t.Errorf("Serve without its listener: %v", err)
		}
	})
}

// TestPeerGoesAway: a handler whose caller has gone may run on; nothing is left after it.
func TestPeerGoesAway(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.server.Handle("slow", func(context.Context, *Request) (any, error) {
			time.Sleep(5 * time.Second)
			return "for nobody", nil
		})
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		err := r.pool.Call(ctx, r.addr, "slow", nil, nil)
		var call *CallError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &call) || !call.Sent {
			t.Errorf("a call that was given up: %v", err)
		}
		if s := r.pool.Stats(); s.Open != 0 {
			t.Errorf("the comm was kept: %+v", s)
		}
		time.Sleep(time.Minute)
		if s := r.server.Stats(); s.Comms != 0 || s.Running != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}
