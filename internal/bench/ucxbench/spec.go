package ucxbench

import "context"

// OpenArgs says how a side sets up UCX.
type OpenArgs struct {
	// Server listens, the other side connects.
	Server bool `json:"server"`
	// Mode is "spin" or "adaptive".
	Mode string `json:"mode"`
	// Endpoint is how the pair connects: see EndpointNames.
	Endpoint string `json:"endpoint"`
	// Device is the CUDA device of device memory; -1 for none.
	Device int `json:"device"`
}

// EndpointNames are the ways two processes can be connected.
var EndpointNames = []string{EndpointLifeline, EndpointAddress, EndpointSockaddr}

// Ways to connect.
const (
	// EndpointLifeline is Millstream's own: worker addresses exchanged over a
	// connection that stays open and tells of a dead peer. Error mode peer.
	EndpointLifeline = "lifeline"
	// EndpointAddress is by worker address alone, error mode none: what
	// ucx_perftest does.
	EndpointAddress = "address"
	// EndpointSockaddr is UCX's own connection manager, error mode peer: what
	// UCXX does.
	EndpointSockaddr = "sockaddr"
)

// Opened is what a side says after opening.
type Opened struct {
	// Address the other side connects to; empty from a side that is not
	// connected to.
	Address string `json:"address,omitempty"`
	// PID of the process.
	PID int `json:"pid"`
	// Library and Version of UCX.
	Library string `json:"library"`
	Version string `json:"version"`
}

// Connected is what a side says after connecting.
type Connected struct {
	// Lanes the endpoint uses, as "transport/device", fastest first.
	Lanes []string `json:"lanes"`
}

// Spec is one measurement, run by both sides at once.
type Spec struct {
	Case string `json:"case"`
	Size int64  `json:"size"`
	Mem  string `json:"mem"`
	// Iterations measured and, before them, warm-up iterations.
	Iterations int `json:"iterations"`
	Warmup     int `json:"warmup"`
	// Window is the number of outstanding operations of a bandwidth case.
	Window int `json:"window"`
	// Goroutines of a rate case.
	Goroutines int `json:"goroutines"`
	// Seconds of an idle case.
	Seconds float64 `json:"seconds"`
	// Seed of the payload pattern; new in each round.
	Seed uint64 `json:"seed"`
}

// Sample is what one side measured. Payloads have been verified, outside the
// timed part.
type Sample struct {
	// Seconds of the timed part.
	Seconds float64 `json:"seconds"`
	// Operations in it: messages one way, round trips for a latency.
	Operations int64 `json:"operations"`
	// Allocs is the number of Go heap allocations in the timed part.
	Allocs uint64 `json:"allocs"`
	// CPUSeconds is the processor time of the process in the timed part.
	CPUSeconds float64 `json:"cpu_seconds"`
	// Steps of a mapping case: the transfer that warms up, the first and the
	// second from another buffer.
	Steps []Step `json:"steps,omitempty"`
}

// Step is one transfer of a mapping case.
type Step struct {
	Seconds float64 `json:"seconds"`
	// Mappings is how often the driver was called to open the other process's
	// memory.
	Mappings uint64 `json:"mappings"`
}

// Side is one end of a pair of processes.
type Side interface {
	// Open sets UCX up.
	Open(ctx context.Context, args OpenArgs) (Opened, error)
	// Connect makes the endpoint. address is what the other side's Open gave.
	Connect(ctx context.Context, address string) (Connected, error)
	// Run measures; both sides must be told to.
	Run(ctx context.Context, spec Spec) (Sample, error)
	// Close gives everything back.
	Close(ctx context.Context) error
}
