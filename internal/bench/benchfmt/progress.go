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

// Intervals of the progress line. A terminal is redrawn often enough to look
// alive; a log gets a line rarely enough to stay readable.
const (
	liveEvery   = 100 * time.Millisecond
	sparseEvery = 5 * time.Second
)

// Progress shows how far a long command is: on a terminal one line that is
// rewritten in place, elsewhere a line every five seconds. Safe for several
// goroutines. The zero value and a nil *Progress show nothing.
type Progress struct {
	w    io.Writer
	live bool

	mu    sync.Mutex
	last  time.Time
	drawn bool
	now   func() time.Time
}

// NewProgress writes to w; the line is live when w is a terminal that can
// rewrite a line (TERM is not "dumb").
func NewProgress(w io.Writer) *Progress {
	return newProgress(w, IsTerminal(w) && os.Getenv("TERM") != "dumb", time.Now)
}

func newProgress(w io.Writer, live bool, now func() time.Time) *Progress {
	return &Progress{w: w, live: live, now: now}
}

// Step says that done of total steps are finished and what runs now. Lines
// that come too soon after the last one are dropped.
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
	// \r returns, ESC[K clears what a longer line left behind.
	fmt.Fprintf(p.w, "\r%s %3d%% %s\x1b[K", bar, percent(done, total), text)
	p.drawn = true
}

// Clear removes the live line, so that other output starts on a clean one.
func (p *Progress) Clear() {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
		p.last = time.Time{} // what comes next may draw at once
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
