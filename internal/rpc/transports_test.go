package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// overEach runs a test over the real transports and the simulated one, on the clock of the
// machine.
func overEach(t *testing.T, f func(t *testing.T, s *rpc.Server, n comm.Network, address string)) {
	for name, c := range map[string]struct {
		net     comm.Network
		address string
	}{
		"tcp":    {comm.Default, "tcp://127.0.0.1:0"},
		"inproc": {comm.Default, "inproc://"},
		"sim":    {sim.New(sim.Config{}).Host("host"), "sim://host:0"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			l, err := c.net.Listen(t.Context(), c.address, comm.ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			s := rpc.NewServer(rpc.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			served := make(chan error, 1)
			go func() { served <- s.Serve(context.Background(), l) }()
			f(t, s, c.net, l.ContactAddr())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := <-served; !errors.Is(err, rpc.ErrClosed) {
				t.Error(err)
			}
			if st := s.Stats(); st.Comms != 0 || st.Running != 0 {
				t.Errorf("left over: %+v", st)
			}
		})
	}
}

func TestCallsOverTransports(t *testing.T) {
	overEach(t, func(t *testing.T, s *rpc.Server, n comm.Network, address string) {
		rpc.Handle(s, "add", func(_ context.Context, _ *rpc.Request, in pair) (int, error) { return in.X + in.Y, nil })
		rpc.Handle(s, "divide", func(_ context.Context, _ *rpc.Request, in pair) (int, error) {
			return in.X / in.Y, nil
		})
		pool := rpc.NewPool(n, rpc.PoolConfig{Limit: 5})
		defer pool.Close()
		var all sync.WaitGroup
		for w := range 20 {
			all.Go(func() {
				for i := range 30 {
					var sum int
					if err := pool.Call(t.Context(), address, "add", pair{w, i}, &sum); err != nil || sum != w+i {
						t.Errorf("%d + %d = %d, %v", w, i, sum, err)
					}
				}
				var remote *rpc.RemoteError
				if err := pool.Call(t.Context(), address, "divide", pair{1, 0}, nil); !errors.As(err, &remote) ||
					remote.Traceback == "" {
					t.Errorf("a panic became %v", err)
				}
			})
		}
		all.Wait()
		if st := pool.Stats(); st.Dials > 5 || st.Open > 5 || st.Active != 0 {
			t.Errorf("%+v", st)
		}
		// A large value, both ways, without a copy of ours.
		data := make([]byte, 20<<20)
		data[1<<20] = 7
		var back []byte
		if err := pool.Call(t.Context(), address, "echo", map[string]any{"data": wire.Serialize{Value: data}},
			&back); err != nil || len(back) != len(data) || back[1<<20] != 7 {
			t.Errorf("echo: %d bytes, %v", len(back), err)
		}
	})
}

func TestStreamsOverTransports(t *testing.T) {
	overEach(t, func(t *testing.T, s *rpc.Server, n comm.Network, address string) {
		const senders, each = 4, 500
		// A handler that takes the comm over, reads a stream and sends one back.
		s.Handle("mirror", func(ctx context.Context, r *rpc.Request) (any, error) {
			r.Takeover()
			back := rpc.NewWriter(r.Comm, rpc.WriterConfig{Interval: time.Millisecond})
			back.Start()
			left := senders * each
			err := rpc.ServeStream(ctx, r.Comm, rpc.StreamConfig{Handlers: map[string]rpc.StreamHandler{
				"n": func(ctx context.Context, b *rpc.Body) error {
					back.Add(b.Raw(), nil)
					if err := back.Flush(0); err != nil {
						return err
					}
					if left--; left == 0 {
						return back.SendValue(msgpack.Map{{Key: "op", Value: "close-stream"}})
					}
					return nil
				},
			}})
			return rpc.NoReply, errors.Join(err, back.Shutdown(ctx))
		})
		c, err := n.Dial(t.Context(), address, comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := rpc.Notify(t.Context(), c, "mirror", nil); err != nil {
			t.Fatal(err)
		}
		out := rpc.NewWriter(c, rpc.WriterConfig{Interval: time.Millisecond})
		out.Start()
		var owner sync.Mutex
		for w := range senders {
			go func() {
				for i := range each {
					owner.Lock()
					err := out.SendValue(msgpack.Map{{Key: "op", Value: "n"}, {Key: "w", Value: w},
						{Key: "i", Value: i}})
					owner.Unlock()
					if err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		var next [senders]int
		err = rpc.ServeStream(t.Context(), c, rpc.StreamConfig{Handlers: map[string]rpc.StreamHandler{
			"n": func(_ context.Context, b *rpc.Body) error {
				var in struct{ W, I int }
				if err := b.Args(&in); err != nil {
					return err
				}
				if next[in.W] != in.I {
					return fmt.Errorf("sender %d: message %d came where %d should be", in.W, in.I, next[in.W])
				}
				next[in.W]++
				return nil
			},
		}})
		if err != nil {
			t.Error(err)
		}
		if err := out.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for w, k := range next {
			if k != each {
				t.Errorf("sender %d: %d of %d messages came back", w, k, each)
			}
		}
	})
}
