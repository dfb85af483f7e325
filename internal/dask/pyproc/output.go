package pyproc

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// Output of a child is logged line by line: at most lineRate lines per second, each truncated to lineLength bytes, so
// that a task that prints in a loop does not fill the log.
const (
	lineLength = 4 << 10
	lineRate   = 200
)

// output logs the output of a child.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	line    []byte // the incomplete line
	skip    bool   // drop the rest of a line that was too long
	final   string // the last line that was not empty
	second  time.Time
	lines   int // in that second
	dropped int
}

// Write never fails, because the child must not block on its output.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if !o.skip {
			k := min(len(part), lineLength-len(o.line))
			o.line = append(o.line, part[:k]...)
			o.skip = k < len(part)
		}
		if i < 0 {
			break
		}
		o.flush()
		b = b[i+1:]
	}
	return n, nil
}

func (o *output) flush() {
	text := validUTF8(string(bytes.TrimRight(o.line, " \r\t")))
	o.line, o.skip = o.line[:0], false
	if text == "" {
		return
	}
	o.final = text
	if now := time.Now(); now.Sub(o.second) >= time.Second {
		if o.dropped > 0 {
			o.log.Warn("output of a Python process dropped", "lines", o.dropped)
		}
		o.second, o.lines, o.dropped = now, 0, 0
	}
	if o.lines++; o.lines > lineRate {
		o.dropped++
		return
	}
	o.log.Info("Python process output", "line", text)
}

// last returns the last line, which often has the cause of a crash. An incomplete line counts as well.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.final
}
