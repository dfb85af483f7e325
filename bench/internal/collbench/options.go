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
	NCCL    = "nccl"
)

// PeerNames are all peers; NCCL's loop works on device memory, the others on the host's.
func PeerNames() []string { return []string{OpenMPI, Gloo, NCCL} }

// HostPeers are those on the host's memory.
func HostPeers() []string { return []string{OpenMPI, Gloo} }

// Options say what to measure. Complete fills in what is not set.
type Options struct {
	// Ranks is the number of processes.
	Ranks int
	// Sizes of a rank's buffer in bytes.
	Sizes []int64
	// Rounds is how often each competitor runs; the best of each counts.
	Rounds int
	// RoundTime is how long one size is measured in one round.
	RoundTime time.Duration
	// Quick means fewer and shorter rounds.
	Quick bool
	// Settings of the engine: "shm" (shared memory), "ucx", "tcp"; on device memory "nccl" and
	// "cuda". All are of one sort.
	Settings []string
}

// Settings on device memory.
const (
	SettingNCCL = "nccl" // by NCCL, through a clique
	SettingCUDA = "cuda" // by Millstream's own kernels, through a clique
)

// HostSettings are the ways in which the engine's ranks can be connected, DeviceSettings those of
// cliques on device memory.
func HostSettings() []string   { return []string{"shm", "ucx", "tcp"} }
func DeviceSettings() []string { return []string{SettingNCCL, SettingCUDA} }

// SettingNames are all of them.
func SettingNames() []string { return append(HostSettings(), DeviceSettings()...) }

// OnDevice reports whether the settings are of device memory.
func (o *Options) OnDevice() bool {
	return slices.ContainsFunc(o.Settings, func(s string) bool { return slices.Contains(DeviceSettings(), s) })
}

// Complete fills in defaults, and refuses what makes no sense.
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
		return fmt.Errorf("%d ranks; want 1 to 64", o.Ranks)
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	if err := options.Positive(o.Quick, options.Number[time.Duration]{What: "length of a round", Value: &o.RoundTime,
		Full: 500 * time.Millisecond, Quick: 150 * time.Millisecond}); err != nil {
		return err
	}
	for _, n := range o.Sizes {
		if n < 4 || n%4 != 0 || n > 1<<30 {
			return fmt.Errorf("size %d: want a multiple of 4, the length of a float32, up to 1 GiB", n)
		}
	}
	for _, s := range o.Settings {
		if o.OnDevice() != slices.Contains(DeviceSettings(), s) {
			return fmt.Errorf("settings %s: those on device memory (%s) are measured apart from those on the host's",
				strings.Join(o.Settings, ", "), strings.Join(DeviceSettings(), ", "))
		}
	}
	return nil
}
