package cluster

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// StartPlan starts the cluster of LocalCUDA for a planned machine.
var StartPlan = startPlan

// AllowedCPU returns a processor that this process may use.
func AllowedCPU(t *testing.T) string {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for c := range 1024 {
		if set.IsSet(c) {
			return strconv.Itoa(c)
		}
	}
	t.Fatal("no processor")
	return ""
}

// WithoutPauses replaces crashed processes at once, without a limit.
func WithoutPauses(c NannyConfig) NannyConfig {
	c.pause, c.stable, c.MaxFailures = 1, 1, -1
	return c
}
