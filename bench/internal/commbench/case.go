package commbench

import (
	"time"

	"go.millstream.dev/bench/internal/options"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/dask/commpeer"
)

// Case is something that is measured.
type Case struct {
	Name, About string
	Unit        string
	Better      benchfmt.Better
	// Size is the payload of a message in bytes.
	Size int64
}

// echoSize is the payload of the echo.
const echoSize = 100 << 20

// Cases of the benchmark.
func Cases() []Case {
	return []Case{
		{"small-rtt", "a small message there and back", benchfmt.UnitMicros, benchfmt.Lower, 0},
		{"echo-100MiB", "a bytes object of 100 MiB there and back, both ways counted", benchfmt.UnitGBps,
			benchfmt.Higher, echoSize},
		{"idle-cpu", "processor time of a listener with 100 idle comms", benchfmt.UnitCorePct, benchfmt.Lower, 0},
	}
}

// CaseNames are the names of the cases.
func CaseNames() []string { return options.Names(Cases(), func(c Case) string { return c.Name }) }

// Setting is a kind of connection.
type Setting struct {
	Name, About string
	// Address the server listens on.
	Address string
	// Env of both processes, as NAME=value.
	Env []string
}

// inproc has no second process.
const inproc = "inproc"

// Settings of the benchmark.
func Settings() []Setting {
	return []Setting{
		{Name: "tcp", About: "tcp:// on the loopback", Address: "tcp://127.0.0.1:0"},
		{Name: "ucxx-tcp", About: "ucxx:// with UCX_TLS=tcp", Address: "ucxx://127.0.0.1:0",
			Env: []string{"UCX_TLS=tcp"}},
		{Name: "ucxx-auto", About: "ucxx:// with nothing set: UCX chooses", Address: "ucxx://127.0.0.1:0"},
		{Name: inproc, About: "inproc:// within one process", Address: "inproc://"},
	}
}

// SettingNames are the names of the settings.
func SettingNames() []string {
	return options.Names(Settings(), func(s Setting) string { return s.Name })
}

// PeerName is Dask's name on the command line and in figures.
const PeerName = commpeer.PeerName

// Options choose what to measure. Complete fills the rest in.
type Options struct {
	Cases, Settings []string
	// Peer compares with Dask.
	Peer bool
	// Mixed also measures Go with Python in both roles, against Python with Python.
	Mixed bool
	// Rounds per figure, of which the best counts (default 5, quick 2).
	Rounds int
	// RoundTime is the length of a round (default 300 ms, quick 100 ms).
	RoundTime time.Duration
	// IdleTime is the length of idle-cpu (default 5 s, quick 2 s).
	IdleTime time.Duration
	// Quick is a run of less than a minute with peers.
	Quick bool

	echo int64 // another size of the echo, for tests
}

// Complete checks names and sets defaults.
func (o *Options) Complete() error {
	if err := options.Choose("case", &o.Cases, CaseNames(), CaseNames()); err != nil {
		return err
	}
	if err := options.Choose("setting", &o.Settings, SettingNames(), SettingNames()); err != nil {
		return err
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	return options.Positive(o.Quick,
		options.Number[time.Duration]{What: "length of a round", Value: &o.RoundTime, Full: 300 * time.Millisecond,
			Quick: 100 * time.Millisecond},
		options.Number[time.Duration]{What: "length of idle-cpu", Value: &o.IdleTime, Full: 5 * time.Second,
			Quick: 2 * time.Second})
}
