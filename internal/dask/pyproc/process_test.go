package pyproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// Bodies and frames are passed unchanged in both directions, concurrently, and the child calls back.
func TestCalls(t *testing.T) {
	ctx := testContext(t)
	p := echo(t, func(c *Config) {
		c.Handlers = map[string]Handler{
			"echo": func(_ context.Context, m *Message) (any, [][]byte, error) { return m.Body, m.Frames, nil },
		}
	})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than a socket holds
	var wg sync.WaitGroup
	for i := range 40 {
		op := []string{"echo", "inline", "back"}[i%3]
		wg.Go(func() {
			frames := [][]byte{[]byte(fmt.Sprint(i)), nil, big[:i*len(big)/40]}
			m, err := p.Call(ctx, op, map[string]any{"n": i}, frames)
			if err != nil {
				t.Error(err)
				return
			}
			want, _ := msgpack.Append(nil, map[string]any{"n": i})
			if !bytes.Equal(m.Body, want) || len(m.Frames) != 3 {
				t.Errorf("%s: %x and %d frames came back", op, m.Body, len(m.Frames))
				return
			}
			for k := range frames {
				if !bytes.Equal(m.Frames[k], frames[k]) {
					t.Errorf("%s: frame %d of %d bytes has %d", op, k, len(frames[k]), len(m.Frames[k]))
				}
			}
		})
	}
	wg.Wait()
	if p.Version() == "" || p.PID() == 0 || p.Err() != nil {
		t.Errorf("version %q, pid %d, %v", p.Version(), p.PID(), p.Err())
	}
}

// Python buffers of any shape are received: with several dimensions, with steps, empty.
func TestShapesOfBuffers(t *testing.T) {
	m, err := echo(t, nil).Call(testContext(t), "shapes", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"abcdef", "abcdef", "abcdef", "abcdef", "abcdef", "", "", "", ""}
	if len(m.Frames) != len(want) {
		t.Fatalf("%d frames came, want %d", len(m.Frames), len(want))
	}
	for i, f := range m.Frames {
		if string(f) != want[i] {
			t.Errorf("frame %d is %q, want %q", i, f, want[i])
		}
	}
}

// Python exceptions are returned unchanged; errors of a Go handler are raised in Python and returned again.
func TestExceptions(t *testing.T) {
	ctx := testContext(t)
	p := echo(t, func(c *Config) {
		c.Handlers = map[string]Handler{
			"echo": func(context.Context, *Message) (any, [][]byte, error) {
				panic("a fault of ours")
			},
		}
	})
	_, err := p.Call(ctx, "fail", "boom", nil)
	var e *Exception
	if !errors.As(err, &e) || e.Type != "ValueError" || e.Message != "boom" ||
		!strings.Contains(e.Traceback, "in fail") || len(e.Pickled) == 0 {
		t.Errorf("got %#v, want the exception with its traceback", err)
	}
	if _, err = p.Call(ctx, "back", 1, nil); err == nil || !strings.Contains(err.Error(),
		"GoError: panic: a fault of ours") {
		t.Errorf("got %v, want the panic of the handler", err)
	}
	if _, err = p.Call(ctx, "nothing", nil, nil); err == nil ||
		!strings.Contains(err.Error(), "no handler for 'nothing'") {
		t.Errorf("got %v, want an error about the handler", err)
	}
	if _, err = p.Call(ctx, "echo", struct{}{}, nil); err == nil {
		t.Error("Call with a body that cannot be encoded: got nil, want an error")
	}
	if err := p.Notify(ctx, "fail", "nobody hears it", nil); err != nil {
		t.Error(err)
	}
	if _, err = p.Call(ctx, "echo", 1, nil); err != nil {
		t.Errorf("Call after errors: got %v, want nil", err)
	}
}

// A call ends with its context; the child continues.
func TestCallContext(t *testing.T) {
	p := echo(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Call(ctx, "sleep", 0.5, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	if _, err := p.Call(testContext(t), "echo", 1, nil); err != nil {
		t.Error(err)
	}
}

// The end of a child ends its calls, with the last line of its output.
func TestDeath(t *testing.T) {
	ctx := testContext(t)
	log := &lines{}
	p := echo(t, func(c *Config) { c.Logger = newLogger(log) })
	sleeping := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, "sleep", 1000, nil)
		sleeping <- err
	}()
	if _, err := p.Call(ctx, "say", "some words\nthe last words", nil); err != nil {
		t.Fatal(err)
	}
	if p.Ending() {
		t.Error("Ending of a running child: got true, want false")
	}
	_, err := p.Call(ctx, "exit", 7, nil)
	if !p.Ending() {
		t.Error("Ending after a failed call: got false, want true")
	}
	for _, err := range []error{err, <-sleeping} {
		if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(),
			"exit status 7; last line of output: the last words") {
			t.Errorf("got %v, want ErrExited with the last line of output", err)
		}
	}
	<-p.Done()
	if _, err := p.Call(ctx, "echo", 1, nil); !errors.Is(err, ErrExited) {
		t.Errorf("call of a child that has ended: got %v, want ErrExited", err)
	}
	if err := p.Notify(ctx, "echo", 1, nil); !errors.Is(err, ErrExited) {
		t.Errorf("Notify of a child that has ended: got %v, want ErrExited", err)
	}
	if got := log.all(); len(got) != 2 || got[0] != "some words" {
		t.Errorf("log: got %q, want two lines", got)
	}
	if p.Close() != nil || !errors.Is(p.Err(), ErrExited) {
		t.Errorf("closed: %v", p.Err())
	}
}

// A handler that waits for its own child does not prevent its end.
func TestDeathInHandler(t *testing.T) {
	ctx := testContext(t)
	var p *Process
	ready := make(chan struct{})
	got := make(chan error, 1)
	p = echo(t, func(c *Config) {
		c.Handlers = map[string]Handler{
			"echo": func(ctx context.Context, m *Message) (any, [][]byte, error) {
				<-ready
				_, err := p.Call(context.WithoutCancel(ctx), "exit", 3, nil)
				got <- err
				return nil, nil, err
			},
		}
	})
	close(ready)
	if _, err := p.Call(ctx, "back", 1, nil); !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want ErrExited", err)
	}
	if err := <-got; !errors.Is(err, ErrExited) {
		t.Errorf("the handler got: got %v, want ErrExited", err)
	}
	<-p.Done()
}

// A child that violates the protocol is killed, and its calls return the reason.
func TestBrokenProtocol(t *testing.T) {
	for what, text := range map[string]string{
		"frames":  "message of 0 frames",
		"size":    "message of more than 1048576 bytes",
		"nothing": "neither a call nor a reply",
		"calls":   "more than 3 calls at once",
		"close":   "closed its socket",
	} {
		t.Run(what, func(t *testing.T) {
			ctx := testContext(t)
			hold := make(chan struct{})
			defer close(hold)
			p := echo(t, func(c *Config) {
				c.MaxMessage, c.MaxCalls = 1<<20, 3
				c.Handlers = map[string]Handler{"hold": func(ctx context.Context, _ *Message) (any, [][]byte, error) {
					select {
					case <-hold:
					case <-ctx.Done():
					}
					return nil, nil, nil
				}}
			})
			_, err := p.Call(ctx, "break", what, nil)
			if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %q in it", err, text)
			}
			<-p.Done()
		})
	}
}

// Failed starts return the cause.
func TestStartFails(t *testing.T) {
	ctx := testContext(t)
	for name, c := range map[string]struct {
		cfg  Config
		text string
	}{
		"no program":   {Config{Python: "/nowhere/python", Module: "x"}, "no such file"},
		"no module":    {Config{Module: "millstream.nothing"}, "No module named 'millstream.nothing'"},
		"no setup":     {Config{Module: "json"}, "has no attribute 'setup'"},
		"which module": {Config{}, "without Module"},
		"at once":      {Config{Python: "/bin/true", Module: "x"}, "no handshake"},
		"slow":         {Config{Module: "millstream._echo", StartTimeout: time.Nanosecond}, "deadline"},
		"settings":     {Config{Module: "millstream._echo", Settings: map[string]any{"x": make(chan int)}}, "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Python == "" {
				c.cfg.Python = interpreter(t)
			}
			c.cfg.Logger = newLogger(&lines{})
			p, err := Start(ctx, c.cfg)
			if err == nil {
				_ = p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %q in it", err, c.text)
			}
		})
	}
}
