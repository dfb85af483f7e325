package commbench

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
func CaseNames() []string {
	var names []string
	for _, c := range Cases() {
		names = append(names, c.Name)
	}
	return names
}

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
	var names []string
	for _, s := range Settings() {
		names = append(names, s.Name)
	}
	return names
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
	if err := known("case", o.Cases, CaseNames()); err != nil {
		return err
	}
	if err := known("setting", o.Settings, SettingNames()); err != nil {
		return err
	}
	if len(o.Cases) == 0 {
		o.Cases = CaseNames()
	}
	if len(o.Settings) == 0 {
		o.Settings = SettingNames()
	}
	rounds, roundTime, idle := 5, 300*time.Millisecond, 5*time.Second
	if o.Quick {
		rounds, roundTime, idle = 2, 100*time.Millisecond, 2*time.Second
	}
	if o.Rounds == 0 {
		o.Rounds = rounds
	}
	if o.RoundTime == 0 {
		o.RoundTime = roundTime
	}
	if o.IdleTime == 0 {
		o.IdleTime = idle
	}
	if o.Rounds < 0 || o.RoundTime < 0 || o.IdleTime < 0 {
		return fmt.Errorf("rounds and times must not be negative")
	}
	return nil
}

func known(what string, names, valid []string) error {
	for _, n := range names {
		if !slices.Contains(valid, n) {
			return fmt.Errorf("unknown %s %q; there are %s", what, n, strings.Join(valid, ", "))
		}
	}
	return nil
}
