package collbench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/bench/internal/options"
)

// Names of the peers on the command line and in figures.
const (
	OpenMPI = "openmpi"
	Gloo    = "gloo"
	MPI4Py  = "mpi4py"
	NCCL    = "nccl"
)

// PeerNames returns all peers. NCCL uses device memory, mpi4py numpy arrays in Python processes, the others host
// memory.
func PeerNames() []string { return []string{OpenMPI, Gloo, MPI4Py, NCCL} }

// HostPeers returns the peers on host memory.
func HostPeers() []string { return []string{OpenMPI, Gloo} }

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	// Ranks is the number of processes.
	Ranks int
	// Sizes are the sizes of the buffer of a rank in bytes.
	Sizes []int64
	// Rounds is the number of rounds of each competitor; the best counts.
	Rounds int
	// RoundTime is the time for one size in one round.
	RoundTime time.Duration
	// Quick selects fewer and shorter rounds.
	Quick bool
	// Settings are "shm" (shared memory), "ucx" and "tcp", "python" (libmillstream in Python processes, with shared
	// memory), or on device memory "nccl" and "cuda". Host and device settings cannot be mixed.
	Settings []string
}

// SettingPython is libmillstream in Python processes.
const SettingPython = "python"

// Settings on device memory.
const (
	SettingNCCL = "nccl" // NCCL in a clique
	SettingCUDA = "cuda" // kernels of Millstream in a clique
)

// HostSettings returns the settings on host memory of Go programs, DeviceSettings those on device memory.
func HostSettings() []string   { return []string{"shm", "ucx", "tcp"} }
func DeviceSettings() []string { return []string{SettingNCCL, SettingCUDA} }

// SettingNames returns all settings.
func SettingNames() []string {
	return append(append(HostSettings(), SettingPython), DeviceSettings()...)
}

// OnDevice reports whether the settings are on device memory.
func (o *Options) OnDevice() bool {
	return slices.ContainsFunc(o.Settings, func(s string) bool { return slices.Contains(DeviceSettings(), s) })
}

// Complete sets defaults and checks the options.
func (o *Options) Complete() error {
	if err := options.Choose("setting", &o.Settings, SettingNames(), []string{"shm"}); err != nil {
		return err
	}
	if o.Ranks == 0 {
		o.Ranks = 4
		if o.OnDevice() {
			o.Ranks = 2
		}
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int64{4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20}
		if o.OnDevice() {
			o.Sizes = []int64{8, 4 << 10, 256 << 10, 8 << 20, 64 << 20, 256 << 20}
		}
	}
	if o.Ranks < 1 || o.Ranks > 64 {
		return fmt.Errorf("invalid number of ranks %d: want 1 to 64", o.Ranks)
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, options.Number[time.Duration]{What: "duration of a round", Value: &o.RoundTime,
		Full: 500 * time.Millisecond, Quick: 150 * time.Millisecond}); err != nil {
		return err
	}
	for _, n := range o.Sizes {
		if n < 4 || n%4 != 0 || n > 1<<30 {
			return fmt.Errorf("size %d: want a multiple of 4 (float32), up to 1 GiB", n)
		}
	}
	for _, s := range o.Settings {
		if o.OnDevice() != slices.Contains(DeviceSettings(), s) {
			return fmt.Errorf("settings %s: those on device memory (%s) cannot be mixed with those on host memory",
				strings.Join(o.Settings, ", "), strings.Join(DeviceSettings(), ", "))
		}
	}
	return nil
}
