package ucx

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/options"
)

func TestContextDescribesItself(t *testing.T) {
	c, err := NewContext(Config{Name: "describer", Options: map[string]string{"TLS": "tcp,self",
		"UCX_KEEPALIVE_INTERVAL": "7s"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.cfg.Name != "describer" {
		t.Errorf("name %q", c.cfg.Name)
	}
	if lib := c.Info().Library; lib.Path == "" || !lib.AtLeast(1, 13) || lib.AtLeast(9, 0) {
		t.Errorf("library %+v", lib)
	}
	for _, tl := range c.Info().Transports {
		if !strings.HasPrefix(tl, "tcp/") && !strings.HasPrefix(tl, "self/") {
			t.Errorf("transport %q with TLS=tcp,self", tl)
		}
	}
	if len(c.Info().Transports) < 2 {
		t.Errorf("transports %v", c.Info().Transports)
	}
	info := c.Info()
	if got := info.Options["UCX_TLS"]; got != "tcp,self" {
		t.Errorf("got effective option UCX_TLS=%q, want tcp,self", got)
	}
	if !strings.Contains(info.Text, "tcp") {
		t.Errorf("got text %q, want one that names tcp", info.Text)
	}
	if !slices.Contains(info.Memory, mem.Host) || !slices.Contains(info.Memory, mem.Pinned) {
		t.Errorf("got kinds of memory %v, want host and pinned among them", info.Memory)
	}
	if slices.Contains(info.Memory, mem.Device) && !info.Library.CUDA {
		t.Error("device memory without CUDA transports: the host's bit was read")
	}
}

func TestContextRefusesUnknownOption(t *testing.T) {
	_, err := NewContext(Config{Options: map[string]string{"RNDV_TRESH": "1k"}})
	if !errors.Is(err, errNoElem) || !strings.Contains(err.Error(), "UCX_RNDV_THRESH") {
		t.Errorf("misspelt option: %v, want an error that names UCX_RNDV_THRESH", err)
	}
	_, err = NewContext(Config{Options: map[string]string{"RNDV_THRESH": "many"}})
	if !errors.Is(err, ErrInvalidParam) || !strings.Contains(err.Error(), "many") {
		t.Errorf("bad value: %v", err)
	}
}

func TestContextEnvironmentWins(t *testing.T) {
	t.Setenv("UCX_KEEPALIVE_INTERVAL", "11s")
	c, err := NewContext(Config{Options: map[string]string{"KEEPALIVE_INTERVAL": "3s"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, ok := optionOf(c, "UCX_KEEPALIVE_INTERVAL"); !ok || !strings.HasPrefix(got, "11") {
		t.Errorf("UCX_KEEPALIVE_INTERVAL is %q (%v), want 11s of the environment", got, ok)
	}
}

func TestContextClosesAfterWorkers(t *testing.T) {
	c, err := NewContext(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err == nil {
		t.Fatal("closed with an open worker")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := c.NewWorker(WorkerConfig{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("worker of a closed context: %v", err)
	}
	if info := c.Info(); info.Text != "" || info.Memory != nil {
		t.Errorf("got text %q and memory %v of a closed context, want none", info.Text, info.Memory)
	}
}

func TestUnsafeTransportsStage(t *testing.T) {
	for _, c := range []struct {
		transports []string
		want       bool
	}{
		{[]string{"self/memory", "tcp/lo", "posix/memory", "cma/memory"}, true},
		{[]string{"tcp/lo", "cuda_ipc/cuda", "cuda_copy/cuda"}, true},
		{[]string{"tcp/lo", "rc_mlx5/mlx5_0:1"}, false},
		{nil, false},
	} {
		if got := options.PinSafe(c.transports); got != c.want {
			t.Errorf("pinSafe(%v) = %v", c.transports, got)
		}
	}
}
