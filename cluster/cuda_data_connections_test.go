//go:build cgo

package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/config"
	"go.millstream.dev/ucx"
)

// A switch that is off excludes the transport from the configuration of the library, from the transports of a context
// and from those of an endpoint; UCX decides about others.
func TestDisabledTransportsAreOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		u       config.UCX
		without []string
		with    string
		config  string
	}{
		{"nothing", config.UCX{}, nil, "tcp", "all"},
		{"tcp off", config.UCX{TCP: config.Off}, []string{"tcp"}, "posix", "^tcp"},
		{"tcp off, nvlink on", config.UCX{TCP: config.Off, NVLink: config.On}, []string{"tcp"}, "posix",
			"self,sm,cuda_copy,cuda_ipc"},
		{"tcp on", config.UCX{TCP: config.On}, []string{"posix", "sysv", "cma"}, "tcp", "tcp"},
		{"others off", config.UCX{NVLink: config.Off, InfiniBand: config.Off, CUDACopy: config.Off},
			[]string{"cuda_ipc", "cuda_copy", "rc_verbs", "rc_mlx5", "ud_verbs",
				"dc_mlx5"}, "tcp", "^cuda_ipc,ib,cuda_copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			options, _, err := c.u.Translate()
			if err != nil {
				t.Fatal(err)
			}
			x, err := ucx.NewContext(ucx.Config{Options: options})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			info := x.Info()
			if got := info.Options["UCX_TLS"]; got != c.config {
				t.Errorf("got UCX_TLS=%s, want %s", got, c.config)
			}
			var names []string
			for _, r := range info.Transports {
				name, _, _ := strings.Cut(r, "/")
				names = append(names, name)
			}
			used := transportsBetween(t, x)
			for _, bad := range c.without {
				if slices.Contains(names, bad) || slices.Contains(used, bad) {
					t.Errorf("%s: transports of the context %q, of the endpoint %q", bad, names, used)
				}
			}
			if !slices.Contains(names, c.with) {
				t.Errorf("no %s in %q", c.with, names)
			}
			if len(used) == 0 {
				t.Error("endpoint without transports")
			}
		})
	}
}

// transportsBetween sends a message between two workers and returns the transports of the endpoint.
func transportsBetween(t *testing.T, x *ucx.Context) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := x.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := x.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	address, err := b.Address()
	if err != nil {
		t.Fatal(err)
	}
	ep, err := a.Connect(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	got := make([]byte, 5)
	done := make(chan error, 1)
	go func() {
		_, err := b.Recv(ctx, ucx.Bytes(got), 7, ucx.FullMask)
		done <- err
	}()
	if err := ep.Send(ctx, ucx.Bytes([]byte("hello")), 7); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v, want hello", got, err)
	}
	transports, err := ep.Transports()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range transports {
		names = append(names, l.Name)
	}
	return names
}
