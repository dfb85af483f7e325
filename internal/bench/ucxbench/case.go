package ucxbench

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Kind specifies what a case measures.
type Kind string

// Kinds of cases.
const (
	// Latency is half a round trip of a ping-pong.
	Latency Kind = "latency"
	// Bandwidth is one-way traffic with a window of outstanding operations.
	Bandwidth Kind = "bandwidth"
	// Rate is one-way traffic on one worker, from many goroutines or in batches.
	Rate Kind = "rate"
	// Idle is the processor time of a worker that waits without traffic.
	Idle Kind = "idle"
	// Mapping is the time of a first and a second transfer of device memory, and how often they opened memory of the
	// other process.
	Mapping Kind = "mapping"
)

// Case is one benchmark.
type Case struct {
	// Name is the name for --case.
	Name string
	Kind Kind
	// API is the family of operations: tag, am, stream, put, get.
	API string
	// Perftest is the option -t of ucx_perftest for the same measurement, or empty.
	Perftest string
	// UCXX reports whether the Python peers can measure it.
	UCXX bool
	// About is one line for --help.
	About string
}

// Unit returns the unit of the figure.
func (c Case) Unit() string {
	switch c.Kind {
	case Latency, Mapping:
		return benchfmt.UnitMicros
	case Bandwidth:
		return benchfmt.UnitGBps
	case Rate:
		return benchfmt.UnitMsgRate
	default:
		return benchfmt.UnitCorePct
	}
}

// Better returns the direction of improvement.
func (c Case) Better() benchfmt.Better {
	if c.Kind == Bandwidth || c.Kind == Rate {
		return benchfmt.Higher
	}
	return benchfmt.Lower
}

// tagBatch is the case of Kind Rate with one goroutine.
const tagBatch = "tag-batch-rate"

var cases = []Case{
	{"tag-lat", Latency, "tag", "tag_lat", true, "tag send and receive, ping-pong"},
	{"tag-bw", Bandwidth, "tag", "tag_bw", true, "tag send with a window of outstanding sends"},
	{"tag-rate", Rate, "tag", "tag_bw", false, "tag sends of many goroutines on one worker, with allocations"},
	{tagBatch, Rate, "tag", "tag_bw", false, "tag sends of one goroutine in batches, with allocations"},
	{"am-lat", Latency, "am", "ucp_am_lat", false, "active message, ping-pong"},
	{"am-bw", Bandwidth, "am", "ucp_am_bw", false, "active message with a window of outstanding sends"},
	{"stream-lat", Latency, "stream", "stream_lat", false, "stream, ping-pong"},
	{"stream-bw", Bandwidth, "stream", "stream_bw", false, "stream, one way"},
	{"put-lat", Latency, "put", "ucp_put_lat", false, "remote write, ping-pong by polling memory"},
	{"put-bw", Bandwidth, "put", "ucp_put_bw", false, "remote write with a window, then flush"},
	{"get-lat", Latency, "get", "ucp_get", false, "remote read, one at a time"},
	{"get-bw", Bandwidth, "get", "ucp_get", false, "remote read with a window"},
	{"idle-cpu", Idle, "tag", "", true, "processor time of a worker with a receive posted and no traffic"},
	{ipcMap, Mapping, "tag", "", false, "first and second transfer of device memory, with IPC mappings"},
}

// Cases returns all benchmarks, in the order of the report.
func Cases() []Case { return slices.Clone(cases) }

// CaseNames returns the names for --case and --help.
func CaseNames() []string {
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.Name
	}
	return names
}

// FindCase returns a case by name.
func FindCase(name string) (Case, error) {
	i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Case{}, unknown("case", name, CaseNames())
	}
	return cases[i], nil
}

func unknown(what, got string, known []string) error {
	return fmt.Errorf("unknown %s %q; known: %s", what, got, strings.Join(known, ", "))
}
