package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func body(b []byte) *wire.Message { return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}} }

// TestHostilePeers sends what no honest peer sends, and after each shows that another peer
// is served as before.
func TestHostilePeers(t *testing.T) {
	head := []byte{0x82, 0xa2, 'o', 'p', 0xa3, 'a', 'd', 'd', 0xa1, 'x'}
	deep := append(append(bytes.Clone(head), bytes.Repeat([]byte{0x91}, 1<<20)...), 0xc0)
	promised := append(bytes.Clone(head), 0xdd, 0xff, 0xff, 0xff, 0xff)
	many := obj{"op": "add"}
	for i := range MaxArgs {
		many[fmt.Sprint(i)] = i
	}
	pickled := raw(t, obj{"op": "add", "x": obj{"__Pickled__": 1}, "y": 1})
	pickled.Frames = append(pickled.Frames, wire.HeapFrame([]byte{0x81}))
	for name, c := range map[string]struct {
		message *wire.Message
		ends    bool // the comm is ended; otherwise the answer is an error
	}{
		"huge op":         {raw(t, obj{"op": strings.Repeat("x", 1<<20)}), true},
		"many arguments":  {raw(t, many), true},
		"a list":          {raw(t, []any{1, 2, 3}), true},
		"no op":           {raw(t, obj{"data": 1}), true},
		"op is a list":    {raw(t, obj{"op": []any{"echo"}}), true},
		"empty body":      {body(nil), true},
		"deep body":       {body(deep), false},
		"promised array":  {body(promised), false},
		"frame not there": {raw(t, obj{"op": "add", "x": obj{"__Serialized__": 7}, "y": 1}), false},
		"broken pickle":   {pickled, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, PoolConfig{}, func(r *rig) {
				addHandlers(r.server)
				h := r.dial("hostile")
				defer h.Abort()
				if err := h.Write(r.Context(), c.message); err != nil {
					t.Fatal(err)
				}
				m, err := h.Read(r.Context())
				if c.ends {
					if !errors.Is(err, comm.ErrClosed) {
						t.Errorf("the comm lives: %v, %v", m, err)
					}
				} else if err != nil {
					t.Errorf("no answer: %v", err)
				} else if err := decodeReply("op", "peer", m, nil); !errors.As(err, new(*RemoteError)) {
					t.Errorf("the answer is %v", err)
				}
				var sum int
				if err := r.pool.Call(r.Context(), r.addr, "add", pair{1, 2}, &sum); err != nil || sum != 3 {
					t.Errorf("another peer: %d, %v", sum, err)
				}
			})
		})
	}
}

// TestSlowLoris: peers that never finish their request cost a comm, not the server.
func TestSlowLoris(t *testing.T) {
	bubble(t, Config{MaxRunning: 2}, PoolConfig{}, func(r *rig) {
		addHandlers(r.server)
		for i := range 50 {
			host := fmt.Sprint("loris", i)
			c := r.dial(host)
			r.net.SetLink(host, "server", sim.Link{Bandwidth: 1})
			r.say(c, obj{"op": "echo", "data": strings.Repeat("x", 1000)}) // a quarter of an hour
			defer c.Abort()
		}
		var sum int
		if err := r.pool.Call(r.Context(), r.addr, "add", pair{1, 2}, &sum); err != nil || sum != 3 {
			t.Errorf("another peer: %d, %v", sum, err)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			t.Errorf("half requests held the shutdown up: %v", err)
		}
	})
}

// TestPeerThatDoesNotRead: replies that nobody reads end the comm after WriteTimeout.
func TestPeerThatDoesNotRead(t *testing.T) {
	bubble(t, Config{WriteTimeout: 10 * time.Second}, PoolConfig{}, func(r *rig) {
		r.server.Handle("big", func(context.Context, *Request) (any, error) { return make([]byte, 8<<20), nil })
		c := r.dial("deaf")
		defer c.Abort()
		r.say(c, obj{"op": "big"})
		time.Sleep(time.Minute)
		if s := r.server.Stats(); s.Comms != 0 {
			t.Errorf("the comm is still served: %+v", s)
		}
	})
}

// TestHostileAnswers: a server that answers nonsense costs its caller an error.
func TestHostileAnswers(t *testing.T) {
	for name, m := range map[string]*wire.Message{
		"bad msgpack":   body([]byte{0xc1}),
		"no frames":     {},
		"bomb":          body([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}),
		"frame missing": raw(t, obj{"__Serialized__": 3}),
		"odd error":     raw(t, obj{"status": "uncaught-error", "exception": 7, "exception_text": 8, "millstream": 9}),
		"huge error": raw(t, obj{"status": "uncaught-error", "exception_text": strings.Repeat("x", 1<<20),
			"traceback_text": strings.Repeat("y", 1<<20)}),
	} {
		err := decodeReply("op", "peer", m, new(int))
		if err == nil || len(err.Error()) > 2*MaxErrorText {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
	}
	if typ, text := splitRepr("ValueError('no')"); typ != "ValueError" || text != "no" {
		t.Error(typ, text)
	}
	if typ, text := splitRepr("just text"); typ != "Exception" || text != "just text" {
		t.Error(typ, text)
	}
	if got := pythonRepr("it's a\n\"q\""); got != `'it\'s a\n"q"'` {
		t.Error(got)
	}
	if m, err := ErrorMessage(errors.New("bad \xff text"), "error"); err != nil ||
		m.GetString("exception_text") != "RuntimeError('bad \uFFFD text')" {
		t.Error(m, err)
	} else if _, err := msgpack.Append(nil, m.GetString("exception_text")); err != nil {
		t.Error(err)
	}
}
