package sim_test

import (
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/commtest"
	"go.millstream.dev/internal/testkit/sim"
)

func TestConformance(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"plain": {},
		"slow": {Deterministic: true, Link: sim.Link{Latency: 100 * time.Microsecond, Jitter: 200 * time.Microsecond,
			Bandwidth: 4 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			h := sim.New(cfg).Host("host")
			commtest.Run(t, commtest.Factory{Network: h, Address: "sim://host:0", Large: 5 << 20, Rounds: 100})
		})
	}
}
