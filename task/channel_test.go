package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/task"
)

// Who serves channels of a kind is found, once, until it stops or the worker ends. (Package
// clique's tests open real ones.)
func TestChannels(t *testing.T) {
	var h task.Host
	accept := func(context.Context, []byte) (func(context.Context, comm.Comm), error) {
		return nil, errors.New("full")
	}
	if _, err := h.Channels("a"); !errors.Is(err, task.ErrNoChannels) {
		t.Errorf("a kind that nobody serves: %v", err)
	}
	stop, err := h.ServeChannels("a", accept)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := h.Channels("a"); err != nil || f == nil {
		t.Errorf("a kind that is served: %v", err)
	}
	if _, err := h.ServeChannels("a", accept); err == nil || !strings.Contains(err.Error(), "served already") {
		t.Errorf("a kind twice: %v", err)
	}
	stop()
	if _, err := h.Channels("a"); err == nil {
		t.Error("a kind that nobody serves any more")
	}
	if _, err := h.OpenChannel(t.Context(), "tcp://127.0.0.1:1", "a", make([]byte, task.MaxChannelHello+1)); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Errorf("a hello that is too long: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ServeChannels("b", accept); !errors.Is(err, task.ErrHostClosed) {
		t.Errorf("after the end: %v", err)
	}
}
