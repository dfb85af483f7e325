package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/testkit/leak"
)

// Clients of one process have the transports and pools of their own networks, and Connect does not change others.
func TestNetworkOfClients(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Local(ctx, Config{Mode: Goroutines, Workers: 1, Protocol: "ucxx", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bad := configured(t, "DASK_MILLSTREAM__UCX__LIBRARY=/no/libucp.so.0")
	if _, err := ConnectConfig(ctx, c.Address(), bad); err == nil || !strings.Contains(err.Error(), "/no/libucp.so.0") {
		t.Errorf("a client with a UCX library that is missing: got %v, want an error with its path", err)
	}
	n, err := NewNetwork(NetworkConfig{Config: configured(t),
		Overrides: config.Overrides{UCX: config.UCX{TCP: config.On}}, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ConnectOptions{
		"own":    {Address: c.Address(), Logger: discard},
		"shared": {Address: c.Address(), Logger: discard, Network: n},
		"again":  {Address: c.Address(), Logger: discard, Network: n},
	} {
		cl, err := ConnectWith(ctx, o)
		if err != nil {
			t.Fatalf("%s: ConnectWith: got %v, want nil", name, err)
		}
		if _, err := cl.Workers(ctx); err != nil {
			t.Errorf("%s: Workers: got %v, want nil", name, err)
		}
		if err := cl.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
