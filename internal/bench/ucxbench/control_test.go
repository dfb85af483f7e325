package ucxbench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// conversation connects a caller and a serving child by pipes.
func conversation(t *testing.T, handle handler) (c *caller, hangup func() error) {
	t.Helper()
	toChild, parentOut := io.Pipe()
	toParent, childOut := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- serve(t.Context(), toChild, childOut, handle)
		childOut.Close()
	}()
	c = newCaller("child", parentOut, toParent)
	return c, func() error {
		parentOut.Close()
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Second):
			t.Fatal("the child did not end with its input")
			return nil
		}
	}
}

func echo(_ context.Context, verb string, args json.RawMessage) (any, error) {
	switch verb {
	case "echo":
		return args, nil
	case "fail":
		return nil, errors.New("no such thing; install it")
	case "unserializable":
		return func() {}, nil
	}
	return nil, errors.New("unknown verb " + verb)
}

func TestCallAndServe(t *testing.T) {
	c, hangup := conversation(t, echo)
	for n := range 3 {
		var got int
		if err := c.call(t.Context(), "echo", n, &got); err != nil || got != n {
			t.Errorf("echo %d: %d, %v", n, got, err)
		}
	}
	for verb, want := range map[string]string{"fail": "child fail: no such thing; install it",
		"unserializable": "unsupported type", "xyz": "unknown verb xyz"} {
		if err := c.call(t.Context(), verb, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := c.call(t.Context(), "echo", "text", new(int)); err == nil {
		t.Error("a reply of the wrong type was accepted")
	}
	if err := c.call(t.Context(), "echo", func() {}, nil); err == nil {
		t.Error("arguments that are no JSON were sent")
	}
	if err := hangup(); err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := c.call(t.Context(), "echo", 1, nil); err == nil {
		t.Error("a call to an ended child succeeded")
	}
}

// A call that was given up must not confuse the next one with its late reply.
func TestCallDropsLateReply(t *testing.T) {
	release := make(chan struct{})
	c, hangup := conversation(t, func(ctx context.Context, verb string, args json.RawMessage) (any, error) {
		if verb == "slow" {
			<-release
			return "late", nil
		}
		return "prompt", nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.call(ctx, "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v", err)
	}
	close(release)
	var got string
	if err := c.call(t.Context(), "quick", nil, &got); err != nil || got != "prompt" {
		t.Errorf("quick: %q, %v", got, err)
	}
	if err := hangup(); err != nil {
		t.Error(err)
	}
}

// The context of a busy handler ends when the parent exits.
func TestServeStopsHandlerOnHangup(t *testing.T) {
	begun := make(chan struct{})
	c, hangup := conversation(t, func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	go c.call(t.Context(), "run", nil, nil)
	<-begun
	if err := hangup(); err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestServeRejectsGarbage(t *testing.T) {
	err := serve(t.Context(), strings.NewReader("this is no request\n"), io.Discard, echo)
	if err == nil || !strings.Contains(err.Error(), "this is no request") {
		t.Errorf("serve: %v", err)
	}
	c := newCaller("child", io.Discard, strings.NewReader("chatter of a library\n"))
	if err := c.call(t.Context(), "x", nil, nil); err == nil || !strings.Contains(err.Error(), "chatter of a library") {
		t.Errorf("call: %v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	r, w := io.Pipe()
	defer w.Close()
	if err := serve(ctx, r, io.Discard, echo); !errors.Is(err, why) {
		t.Errorf("serve: %v", err)
	}
}
