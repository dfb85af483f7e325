package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// traceLines is the number of lines that a network keeps.
const traceLines = 4096

// trace keeps the last events as text. The mu of the network guards it.
type trace struct {
	w     io.Writer
	lines []traceLine // a ring once it is full
	next  int
}

type traceLine struct {
	at   time.Duration
	text string
}

// subject returns the first word: the connection or host of the line.
func (l traceLine) subject() string {
	subject, _, _ := strings.Cut(l.text, " ")
	return subject
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

// Trace returns the last 4096 events, one per line: time since the network was created, connection, event. With
// Config.Deterministic, lines of one instant are sorted by connection, because the order of goroutines is random.
//
//	1.5ms        worker:40000>scheduler:8786 sent 120 bytes, 1 frames
func (n *Network) Trace() string {
	n.mu.Lock()
	lines := slices.Concat(n.trace.lines[n.trace.next:], n.trace.lines[:n.trace.next])
	n.mu.Unlock()
	if n.cfg.Deterministic {
		slices.SortStableFunc(lines, func(a, b traceLine) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.subject(), b.subject()))
		})
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String())
	}
	return b.String()
}
