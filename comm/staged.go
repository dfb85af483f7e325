package comm

import (
	"fmt"
	"runtime"
	"strings"
)

// StagedMode says when frames on a GPU go through pinned host memory in chunks of our own.
type StagedMode uint8

const (
	// StagedAuto stages where nothing better exists: tcp:// and tls:// always, ucxx:// between Millstream programs that
	// have neither cuda_ipc nor RDMA between them.
	StagedAuto StagedMode = iota
	// StagedOff never does: tcp:// and tls:// then refuse frames on a GPU, ucxx:// leaves them to UCX.
	StagedOff
	// StagedOn always does between Millstream programs, also where UCX has a lane for GPUs.
	StagedOn
)

// StagedConfig says how frames on GPUs travel where no transport can touch them: in chunks through pinned host memory,
// the copy engine and the network at work at the same time, over several connections.
type StagedConfig struct {
	// Mode says when (default auto, millstream.comm.staged).
	Mode StagedMode
	// Lines is how many connections a large frame is spread over, with the comm's own (default half as many as there
	// are cores, 2 to 8; at most 16; millstream.comm.staged-lines). The dialling side decides; further ones are made
	// only between processes that both have a Device, with the comm. 1 makes none, on either side.
	Lines int
}

// Numbers of lines.
const (
	// defaultStagedLines is the most that StagedConfig.Lines is where it is not set.
	defaultStagedLines = 8
	// MaxStagedLines bounds it, and what a peer may ask for.
	MaxStagedLines = 16
)

// LineCount is Lines with its default and its bounds.
func (c StagedConfig) LineCount() int {
	switch {
	case c.Mode == StagedOff:
		return 1
	case c.Lines <= 0:
		return min(defaultStagedLines, max(2, runtime.GOMAXPROCS(0)/2)) // each is a core's work on both sides
	}
	return min(c.Lines, MaxStagedLines)
}

// parseStagedMode reads auto, on or off; true and false will do.
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

// String is what parseStagedMode reads.
func (m StagedMode) String() string {
	switch m {
	case StagedOff:
		return "off"
	case StagedOn:
		return "on"
	}
	return "auto"
}
