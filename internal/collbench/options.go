package collbench

import (
	"fmt"
	"time"
)

// Names of the peers on the command line and in figures.
const (
	OpenMPI = "openmpi"
	Gloo    = "gloo"
)

// PeerNames are all peers.
func PeerNames() []string { return []string{OpenMPI, Gloo} }

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
	// Settings of the engine: "shm" (shared memory), "ucx", "tcp".
	Settings []string
}

// SettingNames are the ways in which the engine's ranks can be connected.
func SettingNames() []string { return []string{"shm", "ucx", "tcp"} }

// Complete fills in defaults, and refuses what makes no sense.
func (o *Options) Complete() error {
	if o.Ranks == 0 {
		o.Ranks = 4
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int64{4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20}
	}
	if len(o.Settings) == 0 {
		o.Settings = []string{"shm"}
	}
	if o.Rounds == 0 {
		o.Rounds = 5
		if o.Quick {
			o.Rounds = 2
		}
	}
	if o.RoundTime == 0 {
		o.RoundTime = 500 * time.Millisecond
		if o.Quick {
			o.RoundTime = 150 * time.Millisecond
		}
	}
	if o.Ranks < 1 || o.Ranks > 64 {
		return fmt.Errorf("%d ranks; want 1 to 64", o.Ranks)
	}
	for _, n := range o.Sizes {
		if n < 4 || n%4 != 0 || n > 1<<30 {
			return fmt.Errorf("size %d: want a multiple of 4, the length of a float32, up to 1 GiB", n)
		}
	}
	for _, s := range o.Settings {
		switch s {
		case "shm", "ucx", "tcp":
		default:
			return fmt.Errorf("unknown setting %q; there are shm, ucx and tcp", s)
		}
	}
	return nil
}
