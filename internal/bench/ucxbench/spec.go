package ucxbench

import "context"

// OpenArgs specify how a side sets up UCX.
type OpenArgs struct {
	// Server is set on the side that listens; the other side connects.
	Server bool `json:"server"`
	// Mode is "spin" or "adaptive".
	Mode string `json:"mode"`
	// Endpoint is the kind of endpoint; see EndpointNames.
	Endpoint string `json:"endpoint"`
	// Device is the CUDA device of device memory; -1 for none.
	Device int `json:"device"`
	// Stage is ucx.Config.StageDevice in bytes.
	Stage int `json:"stage,omitempty"`
}

// EndpointNames are the kinds of endpoints.
var EndpointNames = []string{EndpointLifeline, EndpointAddress, EndpointSockaddr}

// Kinds of endpoints.
const (
	// EndpointLifeline is the default of Millstream: worker addresses are exchanged over a connection that stays open
	// and detects a lost peer. Error mode peer.
	EndpointLifeline = "lifeline"
	// EndpointAddress uses only worker addresses, in error mode none, as ucx_perftest does.
	EndpointAddress = "address"
	// EndpointSockaddr uses the connection manager of UCX, in error mode peer, as UCXX does.
	EndpointSockaddr = "sockaddr"
)

// Opened is the result of Open.
type Opened struct {
	// Address is the address for the other side to connect to, or empty.
	Address string `json:"address,omitempty"`
	// PID is the process ID.
	PID int `json:"pid"`
	// Library and Version are those of UCX.
	Library string `json:"library"`
	Version string `json:"version"`
}

// Connected is the result of Connect.
type Connected struct {
	// Transports are the transports of the endpoint, as "transport/device", fastest first.
	Transports []string `json:"transports"`
}

// Spec is one measurement. Both sides run it concurrently.
type Spec struct {
	Case string `json:"case"`
	Size int64  `json:"size"`
	Mem  string `json:"mem"`
	// Iterations is the number of measured iterations, Warmup that of iterations before them.
	Iterations int `json:"iterations"`
	Warmup     int `json:"warmup"`
	// Window is the number of outstanding operations of a bandwidth case.
	Window int `json:"window"`
	// Goroutines is the number of goroutines of a rate case.
	Goroutines int `json:"goroutines"`
	// Seconds is the duration of an idle case.
	Seconds float64 `json:"seconds"`
	// Seed is the seed of the payload pattern, different in each round.
	Seed uint64 `json:"seed"`
}

// Sample is the measurement of one side. Payloads are verified outside the timed part.
type Sample struct {
	// Seconds is the duration of the timed part.
	Seconds float64 `json:"seconds"`
	// Operations is the number of messages in one direction, or of round trips for a latency.
	Operations int64 `json:"operations"`
	// Allocs is the number of Go heap allocations in the timed part.
	Allocs uint64 `json:"allocs"`
	// CPUSeconds is the processor time of the process in the timed part.
	CPUSeconds float64 `json:"cpu_seconds"`
	// Steps are those of a mapping case: a warm-up transfer, and the first and the second transfer from another buffer.
	Steps []Step `json:"steps,omitempty"`
}

// Step is one transfer of a mapping case.
type Step struct {
	Seconds float64 `json:"seconds"`
	// Mappings is the number of driver calls that open memory of the other process.
	Mappings uint64 `json:"mappings"`
}

// Side is one side of a pair of processes.
type Side interface {
	// Open sets up UCX.
	Open(ctx context.Context, args OpenArgs) (Opened, error)
	// Connect creates the endpoint. address is that of Opened of the other side.
	Connect(ctx context.Context, address string) (Connected, error)
	// Run measures; both sides must run the same spec.
	Run(ctx context.Context, spec Spec) (Sample, error)
	// Close releases all resources.
	Close(ctx context.Context) error
}
