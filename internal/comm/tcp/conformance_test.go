package tcp_test

import (
	"testing"

	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/testkit/commtest"
)

func TestConformance(t *testing.T) {
	commtest.Run(t, commtest.Factory{Address: "tcp://127.0.0.1:0"})
}

func TestConformanceIPv6(t *testing.T) {
	commtest.Run(t, commtest.Factory{Address: "tcp://[::1]:0", Rounds: 10, Large: 1 << 20})
}
