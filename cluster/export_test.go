package cluster

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// StartPlan starts what LocalCUDA would on a machine with those GPUs.
var StartPlan = startPlan

// AllowedCPU is a processor that this process may use.
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

// WithoutPauses replaces dead processes at once, for ever.
func WithoutPauses(c NannyConfig) NannyConfig {
	c.pause, c.settle, c.MaxFailures = 1, 1, -1
	return c
}
