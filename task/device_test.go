package task_test

import (
	"errors"
	"testing"

	"go.millstream.dev/task"
)

func TestCurrentDevice(t *testing.T) {
	if d, err := task.CurrentDevice(t.Context()); d != nil || !errors.Is(err, task.ErrOutside) {
		t.Errorf("outside of a task: %v, %v", d, err)
	}
	host := &task.Host{}
	ctx := task.WithInfo(t.Context(), &task.Info{Host: host})
	if d, err := task.CurrentDevice(ctx); d != nil || !errors.Is(err, task.ErrNoDevice) {
		t.Errorf("without a GPU: %v, %v", d, err)
	}
	host.Device = &task.Device{UUID: "GPU-1"}
	if d, err := task.CurrentDevice(ctx); err != nil || d != host.Device {
		t.Errorf("with a GPU: %v, %v", d, err)
	}
}
