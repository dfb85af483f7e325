// Package freeport finds ports for servers that a test starts or restarts later.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports are below those that the kernel assigns to connections and to listeners on port 0 (32768 to 60999 by
// default), which any other process may take before the server listens.
const lowest, highest = 12000, 32000

// Port returns a loopback port on which no process listens.
func Port(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatalf("no free port from %d to %d", lowest, highest)
	return 0
}

// Address returns a loopback address with such a port, such as "127.0.0.1:12345".
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}
