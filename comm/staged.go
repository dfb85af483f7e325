package comm

import (
	"fmt"
	"runtime"
	"strings"
)

// StagedMode specifies when frames on a GPU are sent through pinned host memory in chunks.
type StagedMode uint8

const (
	// StagedAuto stages if there is no better transport: always with tcp:// and tls://, with ucxx:// between Millstream
	// programs that have neither cuda_ipc nor RDMA between them.
	StagedAuto StagedMode = iota
	// StagedOff never stages: tcp:// and tls:// then reject frames on a GPU, ucxx:// leaves them to UCX.
	StagedOff
	// StagedOn always stages between Millstream programs, even if UCX has a transport for GPUs.
	StagedOn
)

// StagedConfig specifies how frames on GPUs are sent where no transport can access them: in chunks through pinned host
// memory, overlapping the copy engine and the network, over several connections.
type StagedConfig struct {
	// Mode specifies when frames are staged (default auto, millstream.comm.staged).
	Mode StagedMode
	// Stripes is the number of connections (stripes) that carry a large frame, including the comm's own (default half
	// the number of cores, 2 to 8; at most 16; millstream.comm.staged-stripes). The dialing side decides; the further
	// connections are made with the comm, and only between processes that both have a Device. 1 makes none, on either
	// side. Comms over UCX between Millstream programs that share no transport but tcp also send large frames in host
	// memory over stripes (default 4), which are made when the first such frame is sent.
	Stripes int
}

// Numbers of stripes.
const (
	// defaultStripes is the largest default of StagedConfig.Stripes.
	defaultStripes = 8
	// MaxStripes bounds StagedConfig.Stripes, and the number that a peer may request.
	MaxStripes = 16
)

// StripeCount returns Stripes with its default and bounds applied.
func (c StagedConfig) StripeCount() int {
	switch {
	case c.Mode == StagedOff:
		return 1
	case c.Stripes <= 0:
		return min(defaultStripes, max(2, runtime.GOMAXPROCS(0)/2)) // each uses a core on both sides
	}
	return min(c.Stripes, MaxStripes)
}

// parseStagedMode parses auto, on or off; true and false are accepted.
func parseStagedMode(text string) (StagedMode, error) {
	switch strings.ToLower(text) {
	case "", "auto":
		return StagedAuto, nil
	case "off", "false":
		return StagedOff, nil
	case "on", "true":
		return StagedOn, nil
	}
	return 0, fmt.Errorf("comm: millstream.comm.staged is %q: use auto, on or off", text)
}

// String returns the text that parseStagedMode parses.
func (m StagedMode) String() string {
	switch m {
	case StagedOff:
		return "off"
	case StagedOn:
		return "on"
	}
	return "auto"
}
