package benchfmt

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/stdio"
)

// Intervals of the progress line: on a terminal, and in a log.
const (
	liveEvery   = 100 * time.Millisecond
	sparseEvery = 5 * time.Second
)

// Progress shows the progress of a long command: on a terminal in one line that is rewritten, otherwise in a line every
// five seconds. It is safe for concurrent use. The zero value and a nil *Progress show nothing.
type Progress struct {
	w    io.Writer
	live bool

	mu    sync.Mutex
	last  time.Time
	drawn bool
	now   func() time.Time
}

// NewProgress returns a Progress for w. The line is rewritten if w is a terminal and TERM is not "dumb".
func NewProgress(w io.Writer) *Progress {
	return newProgress(w, IsTerminal(w) && os.Getenv("TERM") != "dumb", time.Now)
}

func newProgress(w io.Writer, live bool, now func() time.Time) *Progress {
	return &Progress{w: w, live: live, now: now}
}

// Step reports that done of total steps are finished, and the current one. It is ignored if it follows too soon.
func (p *Progress) Step(done, total int, format string, args ...any) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	every := sparseEvery
	if p.live {
		every = liveEvery
	}
	now := p.now()
	if !p.last.IsZero() && now.Sub(p.last) < every {
		return
	}
	p.last = now
	text := fmt.Sprintf(format, args...)
	if !p.live {
		fmt.Fprintf(p.w, "%3d%% %s\n", percent(done, total), text)
		return
	}
	const cells = 20
	full := percent(done, total) * cells / 100
	bar := strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	// \r returns to the start of the line, ESC[K clears the rest.
	fmt.Fprintf(p.w, "\r%s %3d%% %s\x1b[K", bar, percent(done, total), text)
	p.drawn = true
}

// Clear removes the line before other output.
func (p *Progress) Clear() {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
		p.last = time.Time{} // the next Step draws immediately
	}
}

func percent(done, total int) int {
	if total <= 0 {
		return 0
	}
	return min(100, max(0, done*100/total))
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool { return stdio.IsTerminal(w) }
