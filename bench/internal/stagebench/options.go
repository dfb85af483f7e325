package stagebench

import (
	"fmt"
	"math"
	"time"

	"go.millstream.dev/bench/internal/options"
)

// Case specifies how many messages are in flight.
type Case struct {
	Name, About string
	// Window is the number of messages before the first answer is waited for.
	Window int
}

// Cases returns the cases of the benchmark.
func Cases() []Case {
	return []Case{
		{"one", "one message at a time, until its data is on the other GPU", 1},
		{"window", "four messages in flight", 4},
	}
}

// Setting is a kind of comm.
type Setting struct {
	Name, About string
	// Address is the address of the server, Env the environment of both processes.
	Address string
	Env     []string
}

// tls excludes all UCX transports that access GPU memory.
const tls = "UCX_TLS=tcp,cuda_copy"

// Settings returns the settings of the benchmark.
func Settings() []Setting {
	return []Setting{
		{"tcp", "tcp:// on the loopback interface", "tcp://127.0.0.1:0", nil},
		{"ucxx", "ucxx:// with " + tls, "ucxx://127.0.0.1:0", []string{tls}},
	}
}

// Peers of the benchmark.
const (
	// PeerPlain is UCX with defaults, PeerTuned the best of Tunings.
	PeerPlain = "ucx"
	PeerTuned = "ucx-tuned"
)

// Targets of both, as ratios.
const (
	barPlain = 2.5
	barTuned = 1.6
)

// Tunings returns settings of UCX that help in some cases.
func Tunings() [][]string {
	return [][]string{
		{"UCX_RNDV_FRAG_SIZE=host:4m,cuda:4m"},
		{"UCX_RNDV_FRAG_SIZE=host:4m,cuda:4m", "UCX_RNDV_SCHEME=put_ppln"},
		{"UCX_RNDV_SCHEME=am", "UCX_TCP_TX_SEG_SIZE=256k", "UCX_TCP_RX_SEG_SIZE=512k"},
	}
}

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	Cases, Settings []string
	// Sizes are the sizes of a message in bytes (default 64 and 256 MiB).
	Sizes []int64
	// Lines is the number of connections of a message (default: that of comms).
	Lines int
	// Device is the GPU of both processes.
	Device int
	// Quick selects fewer and shorter rounds.
	Quick bool
	// Rounds is the number of rounds per figure, of which the best counts (default 3, quick 2).
	Rounds int
	// RoundTime is the duration of a round of Millstream (default 400 ms, quick 100 ms).
	RoundTime time.Duration
}

// Names returns the names of all cases and settings.
func Names() (cases, settings []string) {
	return options.Names(Cases(), func(c Case) string { return c.Name }),
		options.Names(Settings(), func(s Setting) string { return s.Name })
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	cases, settings := Names()
	if err := options.Choose("case", &o.Cases, cases, cases); err != nil {
		return err
	}
	if err := options.Choose("setting", &o.Settings, settings, settings); err != nil {
		return err
	}
	if err := options.Sizes(&o.Sizes, 1, math.MaxInt64, 64<<20, 256<<20); err != nil {
		return err
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 3, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	if o.Device < 0 || o.Lines < 0 {
		return fmt.Errorf("device (%d) and lines (%d) must not be negative", o.Device, o.Lines)
	}
	return options.Positive(o.Quick, options.Number[time.Duration]{What: "duration of a round", Value: &o.RoundTime,
		Full: 400 * time.Millisecond, Quick: 100 * time.Millisecond})
}
