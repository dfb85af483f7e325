package kmeansbench

import (
	"fmt"
	"slices"

	"go.millstream.dev/bench/internal/options"
)

// PeerName is the name of scikit-learn on the command line and in figures.
const PeerName = "sklearn"

// Types are the types of the data.
var Types = []string{"float64", "float32"}

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	// Rows and Features are the size of the data.
	Rows, Features int
	// K are the numbers of groups, with a figure for each of them and each type.
	K []int
	// Types are the types of the data (default both).
	Types []string
	// Iterations is the number of iterations of each fit.
	Iterations int
	// Workers and Threads are those of the cluster; scikit-learn gets as many threads in total.
	Workers, Threads int
	// Device specifies whether the GPU is used (default DeviceAuto), GPUWorkers how many workers share it (default 1).
	Device     Devices
	GPUWorkers int
	// Rounds is the number of alternating rounds, of which the best counts.
	Rounds int
	// Quick selects fewer rows and rounds.
	Quick bool
}

// Complete sets the defaults and checks the options.
func (o *Options) Complete() error {
	if o.Device == "" {
		o.Device = DeviceAuto
	}
	if all := []Devices{DeviceAuto, DeviceOn, DeviceOff}; !slices.Contains(all, o.Device) {
		return fmt.Errorf("unknown device %q; want one of %v", o.Device, all)
	}
	if len(o.K) == 0 {
		if o.K = []int{8, 32, 128}; o.Quick {
			o.K = []int{8}
		}
	}
	if err := options.Choose("type", &o.Types, Types, Types); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, []options.Number[int]{
		{What: "rows", Value: &o.Rows, Full: 1_000_000, Quick: 100_000},
		{What: "features", Value: &o.Features, Full: 32, Quick: 32},
		{What: "iterations", Value: &o.Iterations, Full: 10, Quick: 10},
		{What: "workers", Value: &o.Workers, Full: 2, Quick: 2},
		{What: "threads", Value: &o.Threads, Full: 1, Quick: 1},
		{What: "workers on the GPU", Value: &o.GPUWorkers, Full: 1, Quick: 1},
		{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2},
	}...); err != nil {
		return err
	}
	for _, k := range o.K {
		if k < 1 || k > o.Rows {
			return fmt.Errorf("invalid number of groups %d for %d rows", k, o.Rows)
		}
	}
	return nil
}
