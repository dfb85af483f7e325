package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// rpcRig is one Python process with distributed.core, and our pool.
type rpcRig struct {
	asker
	pool *rpc.Pool
}

func newRPCRig(t *testing.T) *rpcRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	log := new(lockedBuffer)
	peer, err := pypeer.Start(ctx, log, nil, "rpc_peer.py")
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		peer.Kill()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	return &rpcRig{asker: asker{t, ctx, peer}, pool: pool}
}

// ask is do for operations whose answer is JSON.
func (r *rpcRig) ask(op string, c pypeer.Command, v any) {
	r.Helper()
	text := r.do(op, c).Message
	if err := json.Unmarshal([]byte(text), v); err != nil {
		r.Fatalf("%v in %s", err, text)
	}
}

// A Go pool calls a real distributed.core.Server.
func TestRPCPoolCallsPython(t *testing.T) {
	r := newRPCRig(t)
	at := r.do("serve", nil).Address
	call := func(op string, args, reply any) error { return r.pool.Call(r.ctx, at, op, args, reply) }

	var id struct{ Type, ID string }
	if err := call("identity", nil, &id); err != nil || id.Type != "Server" || !strings.HasPrefix(id.ID, "Server-") {
		t.Errorf("identity %+v, %v", id, err)
	}
	for _, v := range []any{nil, true, int64(7), 2.5, "grüße", []byte{0, 255}, []any{int64(1), "two"},
		msgpack.Map{{Key: "k", Value: int64(1)}}} {
		var back any
		if err := call("echo", msgpack.Map{{Key: "data", Value: v}}, &back); err != nil || !msgpack.Equal(back, v) {
			t.Errorf("echo of %v: %v, %v", v, back, err)
		}
	}
	var sum int
	if err := call("add", map[string]any{"x": 40, "y": 2}, &sum); err != nil || sum != 42 {
		t.Errorf("add: %d, %v", sum, err)
	}
	var text string
	if err := call("add", map[string]any{"x": "a", "y": "b"}, &text); err != nil || text != "ab" {
		t.Errorf("add of texts: %q, %v", text, err)
	}
	// A large value in frames of its own, both ways.
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	var back []byte
	if err := call("echo", map[string]any{"data": wire.Serialize{Value: data}}, &back); err != nil ||
		!slices.Equal(back, data) {
		t.Errorf("echo of %d bytes: %d, %v", len(data), len(back), err)
	}
	var answer struct {
		Status string
		Data   *wire.NDArray
	}
	if err := call("array", map[string]any{"n": 1000}, &answer); err != nil || answer.Status != "OK" ||
		answer.Data == nil || !slices.Equal(answer.Data.Shape, []int{1000}) {
		t.Errorf("array: %+v, %v", answer, err)
	}
	if s := r.pool.Stats(); s.Dials != 1 || s.Active != 0 {
		t.Errorf("the comm was not reused: %+v", s)
	}
}

func TestRPCErrorsOfPython(t *testing.T) {
	r := newRPCRig(t)
	at := r.do("serve", nil).Address
	for op, c := range map[string]struct {
		args             any
		typ, text, trace string
		is               error
	}{
		"fail": {map[string]any{"text": "no such thing"}, "ValueError", "no such thing", "in fail", nil},
		// a class that travels by value: its repr is all we know
		"odd":          {nil, "OddError", "'odd', 7", "in odd", nil},
		"missing_file": {nil, "FileNotFoundError", "No such file", "in missing_file", fs.ErrNotExist},
		"add":          {map[string]any{"x": 1}, "TypeError", "missing 1 required positional argument: 'y'", "", nil},
		"slow":         {map[string]any{"delay": 1, "z": 2}, "TypeError", "unexpected keyword argument 'z'", "", nil},
	} {
		err := r.pool.Call(r.ctx, at, op, c.args, nil)
		var e *rpc.RemoteError
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", op, err)
			continue
		}
		if e.Type != c.typ || !strings.Contains(e.Message, c.text) || !strings.Contains(e.Traceback, c.trace) ||
			e.Peer != at || e.Op != op {
			t.Errorf("%s: %#v", op, e)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: errors.Is does not find %v", op, c.is)
		}
	}
	// An op that Dask does not know: silence, which a caller that wants a value hears.
	var n int
	if err := r.pool.Call(r.ctx, at, "nonsense", nil, &n); !errors.Is(err, rpc.ErrNilReply) {
		t.Errorf("unknown op: %v", err)
	}
	v := any(7)
	if err := r.pool.Call(r.ctx, at, "nonsense", nil, &v); err != nil || v != nil {
		t.Errorf("unknown op: %v, %v", v, err)
	}
}

func TestRPCScheduler(t *testing.T) {
	r := newRPCRig(t)
	at := r.do("scheduler", nil).Address
	var id struct {
		Type, ID, Address string
		Workers           msgpack.Map
		TotalThreads      int
	}
	if err := r.pool.Call(r.ctx, at, "identity", map[string]any{"n_workers": 0}, &id); err != nil ||
		id.Type != "Scheduler" || id.Address != at {
		t.Errorf("identity %+v, %v", id, err)
	}
	var cores msgpack.Map
	if err := r.pool.Call(r.ctx, at, "ncores", nil, &cores); err != nil || len(cores) != 0 {
		t.Errorf("ncores %v, %v", cores, err)
	}
	var e *rpc.RemoteError
	if err := r.pool.Call(r.ctx, at, "gather", nil, nil); !errors.As(err, &e) || e.Type != "TypeError" {
		t.Errorf("gather without keys: %v", err)
	}
	r.do("stop", nil)
	ctx, cancel := context.WithTimeout(r.ctx, time.Second) // nobody listens; a dial tries for half a minute
	defer cancel()
	if err := r.pool.Call(ctx, at, "identity", nil, nil); err == nil {
		t.Error("a scheduler that has ended answers")
	}
}

// Calls at the same time, a peer that ends, and one that comes back.
func TestRPCPoolAndPythonsEnd(t *testing.T) {
	r := newRPCRig(t)
	at := r.do("serve", nil).Address
	done := make(chan error)
	for range 20 {
		go func() {
			var s string
			err := r.pool.Call(r.ctx, at, "slow", map[string]any{"delay": 0.2}, &s)
			if err == nil && s != "slept" {
				err = fmt.Errorf("answer %q", s)
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
	defer cancel()
	if err := r.pool.Call(ctx, at, "slow", map[string]any{"delay": 30}, nil); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("a call that was given up: %v", err)
	}
	go func() { done <- r.pool.Call(r.ctx, at, "slow", map[string]any{"delay": 60}, nil) }()
	for r.pool.Stats().Active == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	r.peer.Kill()
	if err := <-done; !errors.Is(err, comm.ErrClosed) {
		t.Errorf("a call whose server was killed: %v", err)
	}
}
