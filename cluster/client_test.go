package cluster_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/testkit/freeport"
	"go.millstream.dev/internal/testkit/leak"
)

// TestClientAfterClose requests a client of a closed cluster: the error is returned at once, whatever the dial timeout.
func TestClientAfterClose(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			leak.Check(t)
			ctx := within(t, 2*time.Minute)
			c, err := cluster.Local(ctx, cluster.Config{Mode: mode, Workers: 1, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			cl, err := c.Client(ctx)
			if err == nil {
				_ = cl.Close()
			}
			if !errors.Is(err, cluster.ErrClosed) || !errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				t.Errorf("got %v, want ErrClosed", err)
			}
			if err := c.Scale(ctx, 2); !errors.Is(err, cluster.ErrClosed) {
				t.Errorf("Scale: got %v, want ErrClosed", err)
			}
		})
	}
}

// TestConnectConfig connects with a configuration that the program has loaded and changed, with its address and
// timeout.
func TestConnectConfig(t *testing.T) {
	leak.Check(t)
	ctx := within(t, time.Minute)
	address := "tcp://" + freeport.Address(t)
	settings, err := config.Load(config.Options{Paths: []string{}, Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Set(map[string]any{"scheduler-address": address,
		"distributed.comm.timeouts.connect": "20ms"}); err != nil {
		t.Fatal(err)
	}
	connect := func(f func() error) {
		t.Helper()
		if err := f(); err == nil || !strings.Contains(err.Error(), address) || ctx.Err() != nil {
			t.Errorf("got %v, want an error about %s before the test's own limit", err, address)
		}
	}
	connect(func() error { _, err := cluster.ConnectConfig(ctx, "", settings); return err })

	old, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	config.SetDefault(settings)
	defer config.SetDefault(old)
	connect(func() error { _, err := cluster.Connect(context.WithoutCancel(ctx), ""); return err })
}
