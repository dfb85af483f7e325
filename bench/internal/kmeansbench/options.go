package kmeansbench

import (
	"fmt"
	"slices"

	"go.millstream.dev/bench/internal/options"
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
			return fmt.Errorf("%d groups of %d rows cannot be", k, o.Rows)
		}
	}
	return nil
}
