package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// TestStreamLoop: what Dask's handle_stream does with each shape of message.
func TestStreamLoop(t *testing.T) {
	n := func(i int) any { return numbered(i) }
	stop := msgpack.Map{{Key: "op", Value: "close-stream"}}
	for name, c := range map[string]struct {
		sent    []any
		want    string
		batches int
		fails   string
	}{
		"lists and bare maps": {[]any{[]any{n(1), n(2)}, n(3), []any{}, []any{n(4)}, stop}, "[1 2 3 4]", 4, ""},
		"OK ends a list":      {[]any{[]any{n(1), "OK", n(2)}, []any{n(3), stop, n(4)}}, "[1 3]", 1, ""},
		"a bare OK":           {[]any{"OK", n(1), stop}, "[1]", 2, ""},
		"unknown op": {[]any{[]any{n(1), msgpack.Map{{Key: "op", Value: "what"}}, n(2)}}, "[1]", 0,
			`unknown op "what"`},
		"no op":    {[]any{[]any{msgpack.Map{{Key: "n", Value: 1}}}}, "[]", 0, "missing 'op' key"},
		"a string": {[]any{[]any{"hello"}}, "[]", 0, "not strings"},
		"a number": {[]any{7}, "[]", 0, "expected a map"},
		"a failing handler": {[]any{[]any{n(1), msgpack.Map{{Key: "op", Value: "fail"}}, n(2)}}, "[1]", 0,
			"fail: no"},
		"a panicking handler": {[]any{[]any{n(1), msgpack.Map{{Key: "op", Value: "panic"}}, n(2)}}, "[1]", 0,
			"panic: oh"},
		"bad msgpack": {[]any{msgpack.Raw{0x92, 0x80}}, "[]", 0, "rpc: stream"},
	} {
		t.Run(name, func(t *testing.T) {
			streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
				for _, m := range c.sent {
					if err := a.Write(t.Context(), raw(t, m)); err != nil {
						t.Fatal(err)
					}
				}
				got := []int64{}
				batches := 0
				err := ServeStream(t.Context(), b, StreamConfig{
					Handlers: map[string]StreamHandler{
						"n": func(_ context.Context, b *Body) error {
							var in struct{ N int64 }
							err := b.Args(&in)
							got = append(got, in.N)
							return err
						},
						"fail":  func(context.Context, *Body) error { return errors.New("no") },
						"panic": func(context.Context, *Body) error { panic("oh") },
					},
					Batch: func() { batches++ },
				})
				if fmt.Sprint(got) != c.want || batches != c.batches {
					t.Errorf("got %v in %d batches, want %s in %d", got, batches, c.want, c.batches)
				}
				if c.fails == "" && err != nil || c.fails != "" &&
					(err == nil || !strings.Contains(err.Error(), c.fails)) {
					t.Errorf("ended with %v, want %q", err, c.fails)
				}
				<-a.Done()
				if b.Err() == nil {
					t.Error("the comm is open")
				}
			})
		})
	}
}

func TestStreamDefaultAndContext(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		var ops []string
		go func() {
			ended <- ServeStream(ctx, b, StreamConfig{Default: func(_ context.Context, b *Body) error {
				ops = append(ops, b.Op)
				if len(ops) == 2 {
					cancel()
				}
				return nil
			}})
		}()
		for _, op := range []string{"one", "two"} {
			if err := a.Write(t.Context(), raw(t, obj{"op": op})); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if fmt.Sprint(ops) != "[one two]" {
			t.Error(ops)
		}
	})
}

// TestConnectionStream: a comm of a server becomes a stream.
func TestConnectionStream(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		got := make(chan string, 10)
		r.server.HandleStream("hello", func(_ context.Context, b *Body) error {
			var name string
			_, err := b.Arg("name", &name)
			got <- name
			return err
		})
		c := r.dial("client")
		if err := Notify(r.Context(), c, "connection_stream", nil); err != nil {
			t.Fatal(err)
		}
		s := started(c, WriterConfig{})
		for _, name := range []string{"a", "b", "c"} {
			if err := s.SendValue(obj{"op": "hello", "name": name}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"a", "b", "c"} {
			if name := <-got; name != want {
				t.Errorf("got %s, want %s", name, want)
			}
		}
		if st := r.server.Stats(); st.Streams != 1 || st.Running != 0 {
			t.Errorf("stats %+v", st)
		}
		if err := s.Shutdown(r.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestStreamIsFree: the walk over a batch makes no garbage of its own.
func TestStreamIsFree(t *testing.T) {
	var list []any
	for i := range 100 {
		list = append(list, numbered(i))
	}
	m := raw(t, list)
	names := map[string]string{"n": "n"}
	known := func(op []byte) (string, bool) { s, ok := names[string(op)]; return s, ok }
	sum := 0
	handle := func(b *Body) error { sum += len(b.Raw()); return nil }
	var body Body
	allocs := testing.AllocsPerRun(20, func() {
		if err := eachMessage(m, known, func(b *Body) error { body = *b; return handle(&body) }); err != nil {
			t.Error(err)
		}
	})
	if allocs > 110 { // one for each body, none for its contents
		t.Errorf("%.0f allocations for 100 messages", allocs)
	}
	if body.Message() != m {
		t.Error("the body does not know its message")
	}
}

func TestStreamKeepsValuesClosed(t *testing.T) {
	streamPair(t, sim.Config{}, func(t *testing.T, _ *sim.Network, a, b comm.Comm) {
		s := started(a, WriterConfig{})
		if err := s.SendValue(msgpack.Map{{Key: "op", Value: "put"},
			{Key: "data", Value: wire.Serialize{Value: []byte("closed")}}}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Shutdown(t.Context()) }()
		seen := false
		err := ServeStream(t.Context(), b, StreamConfig{Decode: wire.DecodeOptions{Keep: true},
			Handlers: map[string]StreamHandler{
				"put": func(_ context.Context, b *Body) error {
					var in struct{ Data *wire.Serialized }
					seen = true
					return b.Args(&in)
				},
			}})
		if err != nil || !seen {
			t.Error(err, seen)
		}
	})
}
