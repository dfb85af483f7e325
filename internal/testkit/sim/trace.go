package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// traceLines is how many lines a network remembers.
const traceLines = 4096

// trace keeps the last events as text, guarded by the network's mu.
type trace struct {
	w     io.Writer
	lines []traceLine // a ring once it is full
	next  int
}

type traceLine struct {
	at   time.Duration
	text string
}

// who is the first word: the connection, or whatever else the line is about.
func (l traceLine) who() string {
	who, _, _ := strings.Cut(l.text, " ")
	return who
}

func (l traceLine) String() string { return fmt.Sprintf("%-12s %s\n", l.at, l.text) }

func (n *Network) tracef(format string, args ...any) {
	line := traceLine{n.now(), fmt.Sprintf(format, args...)}
	t := &n.trace
	if len(t.lines) < traceLines {
		t.lines = append(t.lines, line)
	} else {
		t.lines[t.next] = line
		t.next = (t.next + 1) % traceLines
	}
	if t.w != nil {
		_, _ = io.WriteString(t.w, line.String())
	}
}

// Trace is what has happened, a line each: time since the network was made, connection,
// event. The last 4096 lines are kept. With Config.Deterministic, lines of one instant are
// in the order of their connections: who of several goroutines acted first then is chance.
//
//	1.5ms        worker:40000>scheduler:8786 sent 120 bytes, 1 frames
func (n *Network) Trace() string {
	n.mu.Lock()
	lines := slices.Concat(n.trace.lines[n.trace.next:], n.trace.lines[:n.trace.next])
	n.mu.Unlock()
	if n.cfg.Deterministic {
		slices.SortStableFunc(lines, func(a, b traceLine) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who(), b.who()))
		})
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String())
	}
	return b.String()
}
