//go:build cgo

package ucxcomm

import (
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/commtest"
)

// A network has its settings; others in the same process, and comm.Default, have theirs.
func TestNetwork(t *testing.T) {
	ctx := testContext(t)
	tcp := NewNetwork(Settings{Options: map[string]string{"TLS": "tcp,self"}})
	commtest.Run(t, commtest.Factory{Network: tcp, Address: "ucxx://127.0.0.1:0", Rounds: 20})
	if _, err := NewNetwork(Settings{Library: "/no/libucp.so.0"}).Dial(ctx, "ucxx://127.0.0.1:1",
		comm.DialConfig{}); err == nil ||
		!strings.Contains(err.Error(), "/no/libucp.so.0") {
		t.Errorf("a library that is missing: got %v, want an error with its path", err)
	}
	l, err := comm.Listen(ctx, "ucxx://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatalf("comm.Default after a network with a missing library: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, address := range []string{"ucx://127.0.0.1:0", "ucxx://127.0.0.1:0", FileScheme + "://" + t.TempDir() +
		"/x"} {
		want := "encryption is required"
		if _, err := tcp.Listen(ctx, address, comm.ListenConfig{RequireEncryption: true}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Listen on %s: got %v, want %q", address, err, want)
		}
		if _, err := tcp.Dial(ctx, address, comm.DialConfig{RequireEncryption: true}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Dial to %s: got %v, want %q", address, err, want)
		}
	}
	if _, err := tcp.Dial(ctx, "what://127.0.0.1:1", comm.DialConfig{}); err == nil ||
		!strings.Contains(err.Error(), "unknown scheme") {
		t.Errorf("an unknown scheme: got %v", err)
	}
}
