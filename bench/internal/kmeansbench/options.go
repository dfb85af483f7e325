package kmeansbench

import (
	"fmt"
	"slices"
	"strings"
)

// PeerName is scikit-learn's on the command line and in figures.
const PeerName = "sklearn"

// Types are those of the numbers.
var Types = []string{"float64", "float32"}

// Options say what is measured. Complete fills in what is not set.
type Options struct {
	// Rows and Features are the size of the data.
	Rows, Features int
	// K are the numbers of groups, one figure for each and each type.
	K []int
	// Types are those of the numbers (default both).
	Types []string
	// Iterations is how many each fit does.
	Iterations int
	// Workers and Threads are the cluster's; scikit-learn gets as many threads as both have.
	Workers, Threads int
	// Device says whether the GPU takes part (default DeviceAuto), GPUWorkers how many workers
	// share it (default 1).
	Device     Devices
	GPUWorkers int
	// Rounds alternate; the best counts.
	Rounds int
	// Quick is fewer rows and rounds.
	Quick bool
}

// Complete fills in the defaults and says what makes no sense.
func (o *Options) Complete() error {
	set := func(v *int, full, quick int) {
		if *v != 0 {
			return
		}
		if *v = full; o.Quick {
			*v = quick
		}
	}
	set(&o.Rows, 1_000_000, 100_000)
	set(&o.Features, 32, 32)
	set(&o.Iterations, 10, 10)
	set(&o.Workers, 2, 2)
	set(&o.Threads, 1, 1)
	set(&o.GPUWorkers, 1, 1)
	set(&o.Rounds, 5, 2)
	if o.Device == "" {
		o.Device = DeviceAuto
	}
	if all := []Devices{DeviceAuto, DeviceOn, DeviceOff}; !slices.Contains(all, o.Device) {
		return fmt.Errorf("device %q: there are %v", o.Device, all)
	}
	if len(o.K) == 0 {
		if o.K = []int{8, 32, 128}; o.Quick {
			o.K = []int{8}
		}
	}
	if len(o.Types) == 0 {
		o.Types = Types
	}
	for _, t := range o.Types {
		if !slices.Contains(Types, t) {
			return fmt.Errorf("unknown type %q; there are %s", t, strings.Join(Types, " and "))
		}
	}
	for name, v := range map[string]int{"rows": o.Rows, "features": o.Features, "iterations": o.Iterations,
		"workers": o.Workers, "threads": o.Threads, "rounds": o.Rounds, "workers on the GPU": o.GPUWorkers} {
		if v < 1 {
			return fmt.Errorf("%d %s: there must be one at least", v, name)
		}
	}
	for _, k := range o.K {
		if k < 1 || k > o.Rows {
			return fmt.Errorf("%d groups of %d rows cannot be", k, o.Rows)
		}
	}
	return nil
}
