package task_test

import (
	"context"
	"errors"
	"testing"

	internal "go.millstream.dev/internal/task"
	"go.millstream.dev/task"
)

func TestOutside(t *testing.T) {
	ctx := context.Background()
	if got := task.CurrentKey(ctx); got != "" {
		t.Errorf("CurrentKey: got %q, want \"\"", got)
	}
	_, err := task.CurrentDevice(ctx)
	for name, err := range map[string]error{"CurrentDevice": err, "Secede": task.Secede(ctx),
		"Rejoin": task.Rejoin(ctx)} {
		if !errors.Is(err, task.ErrOutside) {
			t.Errorf("%s: got %v, want ErrOutside", name, err)
		}
	}
}

// thread records the calls of its methods.
type thread struct{ calls *[]string }

func (t thread) Secede(context.Context) error {
	*t.calls = append(*t.calls, "secede")
	return nil
}

func (t thread) Rejoin(context.Context) error {
	*t.calls = append(*t.calls, "rejoin")
	return nil
}

func TestInside(t *testing.T) {
	var calls []string
	key := task.NewKey("sum-1")
	ctx := internal.WithInfo(context.Background(), &internal.Info{Key: key, Host: &internal.Host{},
		Thread: thread{&calls}})
	if got := task.CurrentKey(ctx); got != key {
		t.Errorf("CurrentKey: got %v, want %v", got, key)
	}
	if _, err := task.CurrentDevice(ctx); !errors.Is(err, task.ErrNoDevice) {
		t.Errorf("CurrentDevice on a worker without a GPU: got %v, want ErrNoDevice", err)
	}
	if err := errors.Join(task.Secede(ctx), task.Rejoin(ctx)); err != nil {
		t.Error(err)
	}
	if len(calls) != 2 || calls[0] != "secede" || calls[1] != "rejoin" {
		t.Errorf("got calls %v, want secede, rejoin", calls)
	}
	device := &task.Device{Name: "H"}
	ctx = internal.WithInfo(ctx, &internal.Info{Host: &internal.Host{Device: device}})
	if got, err := task.CurrentDevice(ctx); got != device || err != nil {
		t.Errorf("CurrentDevice: got %v, %v; want the worker's", got, err)
	}
}

func TestKeyOf(t *testing.T) {
	k, err := task.KeyOf([]any{"x", 1})
	if err != nil || k.String() != "('x', 1)" {
		t.Errorf("a tuple: got %v, %v; want ('x', 1)", k, err)
	}
	if k, err := task.KeyOf(struct{}{}); err == nil {
		t.Errorf("a struct: got %v, want an error", k)
	}
}
