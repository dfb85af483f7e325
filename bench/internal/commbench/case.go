package commbench

import (
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/bench/internal/options"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/dask/commpeer"
)

// Case is a measurement.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Size is the payload of a message in bytes.
	Size int64
}

// echoSize is the payload of the echo.
const echoSize = 100 << 20

// Cases returns the cases of the benchmark.
func Cases() []Case {
	return []Case{
		{"small-rtt", "round trip of a small message", benchfmt.UnitMicros, benchfmt.Lower, 0},
		{"echo-100MiB", "round trip of a bytes object of 100 MiB, both directions counted", benchfmt.UnitGBps,
			benchfmt.Higher, echoSize},
		{"idle-cpu", "processor time of a listener with 100 idle comms", benchfmt.UnitCorePct, benchfmt.Lower, 0},
	}
}

// CaseNames returns the names of the cases.
func CaseNames() []string { return options.Names(Cases(), func(c Case) string { return c.Name }) }

// Setting is a kind of connection.
type Setting struct {
	Name, About string
	// Address is the address of the server.
	Address string
	// Env is the environment of both processes, as NAME=value.
	Env []string
	// Stripes is the number of stripes of Go processes, 0 for the default.
	Stripes int
	// Extra is set for settings that are measured only by name.
	Extra bool
}

// inproc is the setting with one process.
const inproc = "inproc"

// Settings returns the settings of the benchmark.
func Settings() []Setting {
	all := []Setting{
		{Name: "tcp", About: "tcp:// on the loopback interface", Address: "tcp://127.0.0.1:0"},
		{Name: "ucxx-tcp", About: "ucxx:// with UCX_TLS=tcp", Address: "ucxx://127.0.0.1:0",
			Env: []string{"UCX_TLS=tcp"}},
		{Name: "ucxx-auto", About: "ucxx:// with defaults of UCX", Address: "ucxx://127.0.0.1:0"},
		{Name: inproc, About: "inproc:// within one process", Address: "inproc://"},
	}
	for _, n := range []int{1, 2, 4, 8} {
		about := fmt.Sprintf("ucxx-tcp with %d stripes; only by name", n)
		if n == 1 {
			about = "ucxx-tcp without stripes; only by name"
		}
		all = append(all, Setting{Name: fmt.Sprintf("ucxx-tcp-%d", n), About: about, Address: "ucxx://127.0.0.1:0",
			Env: []string{"UCX_TLS=tcp"}, Stripes: n, Extra: true})
	}
	return all
}

// SettingNames returns the names of the settings.
func SettingNames() []string {
	return options.Names(Settings(), func(s Setting) string { return s.Name })
}

// defaultSettings returns the names of the settings that are measured by default.
func defaultSettings() []string {
	usual := slices.DeleteFunc(Settings(), func(s Setting) bool { return s.Extra })
	return options.Names(usual, func(s Setting) string { return s.Name })
}

// PeerName is the name of Dask on the command line and in figures.
const PeerName = commpeer.PeerName

// Options specify what to measure. Complete sets the defaults.
type Options struct {
	Cases, Settings []string
	// Peer enables the comparison with Dask.
	Peer bool
	// Mixed enables measurements of Go with Python in both roles, compared with Python alone.
	Mixed bool
	// Rounds is the number of rounds per figure, of which the best counts (default 5, quick 2).
	Rounds int
	// RoundTime is the duration of a round (default 300 ms, quick 100 ms).
	RoundTime time.Duration
	// IdleTime is the duration of idle-cpu (default 5 s, quick 2 s).
	IdleTime time.Duration
	// Quick selects a run of less than a minute with peers.
	Quick bool

	echo int64 // size of the echo in tests
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	if err := options.Choose("case", &o.Cases, CaseNames(), CaseNames()); err != nil {
		return err
	}
	if err := options.Choose("setting", &o.Settings, SettingNames(), defaultSettings()); err != nil {
		return err
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	return options.Positive(o.Quick,
		options.Number[time.Duration]{What: "duration of a round", Value: &o.RoundTime, Full: 300 * time.Millisecond,
			Quick: 100 * time.Millisecond},
		options.Number[time.Duration]{What: "duration of idle-cpu", Value: &o.IdleTime, Full: 5 * time.Second,
			Quick: 2 * time.Second})
}
