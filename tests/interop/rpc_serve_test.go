package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// rpcServe serves Python on the loopback.
func (r *rpcRig) rpcServe() (s *rpc.Server, address string) {
	r.Helper()
	return r.rpcServeAt("tcp://127.0.0.1:0", rpc.Config{}, comm.ListenConfig{})
}

func (r *rpcRig) rpcServeAt(at string, cfg rpc.Config, listen comm.ListenConfig) (s *rpc.Server, address string) {
	r.Helper()
	cfg.Type, cfg.Logger, cfg.Blocked = "GoServer", slog.New(slog.NewTextHandler(io.Discard, nil)),
		[]string{"forbidden"}
	s = rpc.NewServer(cfg)
	type pair struct{ X, Y int }
	rpc.Handle(s, "add", func(_ context.Context, _ *rpc.Request, in pair) (int, error) { return in.X + in.Y, nil })
	s.Handle("fail", func(context.Context, *rpc.Request) (any, error) { return nil, errors.New("it's broken") })
	s.Handle("value_error", func(context.Context, *rpc.Request) (any, error) {
		return nil, fmt.Errorf("in Go: %w", &rpc.Exception{Type: "ValueError", Message: "bad value"})
	})
	s.Handle("late", func(context.Context, *rpc.Request) (any, error) { return nil, context.DeadlineExceeded })
	s.Handle("panic", func(context.Context, *rpc.Request) (any, error) { panic("out of cheese") })
	l, err := comm.Listen(r.ctx, at, listen)
	if err != nil {
		r.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(r.ctx), l) }() // the context of a test ends before its cleanup
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			r.Error(err)
		}
		if err := <-served; !errors.Is(err, rpc.ErrClosed) {
			r.Errorf("Serve: %v", err)
		}
	})
	return s, l.ContactAddr()
}

// Python's rpc and ConnectionPool call a Go server.
func TestRPCPythonCallsGo(t *testing.T) {
	r := newRPCRig(t)
	_, at := r.rpcServe()
	for _, via := range []string{"rpc", "pool"} {
		call := func(method string, args any, v any) {
			t.Helper()
			r.ask("call", pypeer.Command{"address": at, "method": method, "args": args, "via": via}, v)
		}
		var id struct{ Type, ID string }
		if call("identity", nil, &id); id.Type != "GoServer" || !strings.HasPrefix(id.ID, "GoServer-") {
			t.Errorf("identity %+v", id)
		}
		var sum int
		if call("add", map[string]int{"x": 40, "y": 2}, &sum); sum != 42 {
			t.Errorf("add %d", sum)
		}
		var text string
		if call("echo", map[string]string{"data": "grüße"}, &text); text != "grüße" {
			t.Errorf("echo %q", text)
		}
		var array struct {
			DType string
			List  []int
		}
		if call("echo", map[string]int{"array": 100_000}, &array); array.DType != "<i8" || len(array.List) != 100_000 ||
			array.List[99_999] != 99_999 {
			t.Errorf("echo of an array: %s, %d", array.DType, len(array.List))
		}
		var state struct{ Status, Address string }
		if call("dump_state", nil, &state); state.Status != "running" || state.Address != at {
			t.Errorf("dump_state %+v", state)
		}
		var none any = "something"
		if call("nonsense", nil, &none); none != nil {
			t.Errorf("an unknown op answers %v, Dask's servers None", none)
		}
	}
	var sums []int
	r.ask("crowd", pypeer.Command{"address": at, "count": 200}, &sums)
	for i, s := range sums {
		if s != 2*i {
			t.Errorf("sum %d of 200 is %d", i, s)
		}
	}
}

// Errors of Go are raised in Python, with a class that says something and Go's stack.
func TestRPCErrorsOfGo(t *testing.T) {
	r := newRPCRig(t)
	_, at := r.rpcServe()
	for method, c := range map[string]struct {
		args            any
		typ, text, note string
	}{
		"fail":        {nil, "RuntimeError", "it's broken", ""},
		"value_error": {nil, "ValueError", "bad value", ""},
		"late":        {nil, "TimeoutError", "deadline exceeded", ""},
		"panic":       {nil, "RuntimeError", "panic: out of cheese", "rpc_serve_test.go"},
		"add":         {map[string]int{"x": 1}, "TypeError", `argument "y": missing a required argument`, ""},
		"forbidden":   {nil, "ValueError", "explicitly disallowed", ""},
	} {
		for _, via := range []string{"rpc", "pool"} {
			var got struct {
				Type, Text string
				Notes      []string
			}
			r.ask("catch", pypeer.Command{"address": at, "method": method, "args": c.args, "via": via}, &got)
			if got.Type != c.typ || !strings.Contains(got.Text, c.text) ||
				!strings.Contains(strings.Join(got.Notes, "\n"), c.note) {
				t.Errorf("%s: Python raised %+v", method, got)
			}
		}
	}
}

// A table of roles holds for Python's certificates, and for ours.
func TestRPCRoles(t *testing.T) {
	r := newRPCRig(t)
	certs := newCommTLS(t, secure.CAConfig{})
	roles := rpc.Roles{"add": {secure.Client}, "identity": {secure.Client, secure.Worker}, "": {secure.Scheduler}}
	_, at := r.rpcServeAt("tls://127.0.0.1:0", rpc.Config{Authorize: roles.Authorize}, certs.listen)
	for _, c := range []struct {
		role, method string
		args         any
		allowed      bool
	}{
		{"client", "add", map[string]int{"x": 1, "y": 2}, true},
		{"worker", "add", map[string]int{"x": 1, "y": 2}, false},
		{"worker", "identity", nil, true},
		{"scheduler", "identity", nil, false},
		{"scheduler", "echo", map[string]int{"data": 1}, true},
		{"client", "echo", map[string]int{"data": 1}, false},
	} {
		command := pypeer.Command{"address": at, "method": c.method, "args": c.args, "via": "pool", "tls": certs.python,
			"role": c.role}
		if c.allowed {
			r.do("call", command)
			continue
		}
		var got struct{ Type, Text string }
		if r.ask("catch", command, &got); got.Type != "PermissionError" || !strings.Contains(got.Text, c.method) {
			t.Errorf("%s as %s: Python raised %+v", c.method, c.role, got)
		}
	}
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{Dial: certs.dial}) // a worker's
	defer pool.Close()
	if err := pool.Call(r.ctx, at, "identity", nil, nil); err != nil {
		t.Error(err)
	}
	if err := pool.Call(r.ctx, at, "add", map[string]int{"x": 1, "y": 2}, nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a worker that adds: %v", err)
	}
}

// Python's BatchedSend to a Go stream loop.
func TestRPCStreamOfPython(t *testing.T) {
	r := newRPCRig(t)
	s, at := r.rpcServe()
	const count = 3000
	numbers := make(chan int, count)
	s.HandleStream("note", func(_ context.Context, b *rpc.Body) error {
		var in struct{ N int }
		err := b.Args(&in)
		numbers <- in.N
		return err
	})
	for _, interval := range []string{"1ms", "10ms"} {
		r.do("stream", pypeer.Command{"address": at, "count": count, "interval": interval})
		for want := range count {
			select {
			case got := <-numbers:
				if got != want {
					t.Fatalf("message %d came where %d should be", got, want)
				}
			case <-r.ctx.Done():
				t.Fatalf("message %d did not come", want)
			}
		}
	}
}

// countedComm counts what is written.
type countedComm struct {
	comm.Comm
	writes atomic.Int64
}

func (c *countedComm) Write(ctx context.Context, m *wire.Message) error {
	c.writes.Add(1)
	return c.Comm.Write(ctx, m)
}

// A Go batched stream to Dask's handle_stream, and to whoever asks a Go server for one.
func TestRPCStreamToPython(t *testing.T) {
	r := newRPCRig(t)
	const count = 3000
	check := func(numbers []int) {
		t.Helper()
		if len(numbers) != count {
			t.Fatalf("Python got %d messages", len(numbers))
		}
		for want, got := range numbers {
			if got != want {
				t.Fatalf("Python got message %d where %d should be", got, want)
			}
		}
	}
	send := func(b *rpc.Writer, op string) error {
		b.Start()
		for i := range count {
			if err := b.SendValue(msgpack.Map{{Key: "op", Value: op}, {Key: "n", Value: i}}); err != nil {
				return err
			}
			if i%500 == 0 {
				time.Sleep(3 * time.Millisecond)
			}
		}
		return nil
	}
	at := r.do("serve", nil).Address
	c, err := comm.Dial(r.ctx, at, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rpc.Notify(r.ctx, c, "connection_stream", nil); err != nil {
		t.Fatal(err)
	}
	counted := &countedComm{Comm: c}
	b := rpc.NewWriter(counted, rpc.WriterConfig{Interval: 2 * time.Millisecond})
	if err := send(b, "note"); err != nil {
		t.Fatal(err)
	}
	if err := b.Shutdown(r.ctx); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Numbers []int
		Lists   int
	}
	r.ask("notes", pypeer.Command{"count": count}, &got)
	check(got.Numbers)
	if n := counted.writes.Load(); n == 0 || n >= count {
		t.Errorf("nothing was batched: %d messages on the wire", n)
	}

	s, own := r.rpcServe()
	s.Handle("subscribe", func(_ context.Context, q *rpc.Request) (any, error) {
		q.Takeover()
		b := rpc.NewWriter(q.Comm, rpc.WriterConfig{Interval: 10 * time.Millisecond})
		if err := send(b, "tick"); err != nil {
			return nil, err
		}
		return rpc.NoReply, b.Shutdown(r.ctx)
	})
	r.ask("listen_to", pypeer.Command{"address": own, "count": count}, &got)
	check(got.Numbers)
	if got.Lists >= count {
		t.Errorf("nothing was batched: %d lists", got.Lists)
	}
}
