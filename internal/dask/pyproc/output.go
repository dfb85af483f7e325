package pyproc

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// What a child prints is logged by the line: at most lineRate lines a second, each cut at
// lineLength bytes, so that a task that prints in a loop does not fill the log.
const (
	lineLength = 4 << 10
	lineRate   = 200
)

// output logs what a child prints.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	line    []byte // the line that is not complete yet
	skip    bool   // the rest of a line that was too long
	final   string // the last line that was not empty
	second  time.Time
	lines   int // in that second
	dropped int
}

// Write never fails: the child must not block on its log.
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
	text := valid(string(bytes.TrimRight(o.line, " \r\t")))
	o.line, o.skip = o.line[:0], false
	if text == "" {
		return
	}
	o.final = text
	if now := time.Now(); now.Sub(o.second) >= time.Second {
		if o.dropped > 0 {
			o.log.Warn("a Python process prints too much", "dropped lines", o.dropped)
		}
		o.second, o.lines, o.dropped = now, 0, 0
	}
	if o.lines++; o.lines > lineRate {
		o.dropped++
		return
	}
	o.log.Info(text)
}

// last is the last line, which tells most about a child that died. What has no newline
// yet is a line then.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.final
}
