package freeport

import (
	"net"
	"testing"
)

// Ports can be listened on, and are below those of connections.
func TestPort(t *testing.T) {
	for range 20 {
		port := Port(t)
		if port < lowest || port >= highest {
			t.Errorf("got port %d, want %d to %d", port, lowest, highest)
		}
	}
	l, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
