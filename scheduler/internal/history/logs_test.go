package history

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The log of get_logs is bounded in lines, in the bytes of a line and in all bytes; the newest lines stay.
func TestLogBounds(t *testing.T) {
	var l LogLines
	long := strings.Repeat("ü", logLineBytes)
	for i := range 2*logBytes/logLineBytes + 1 {
		l.add(logLine{text: fmt.Sprint(i, " ", long)})
	}
	lines := l.latest(time.Time{}, 0)
	sum := 0
	for _, line := range lines {
		sum += len(line.text)
		if len(line.text) > logLineBytes+len("…") {
			t.Fatalf("a line: got %d bytes, want at most %d", len(line.text), logLineBytes)
		}
	}
	if sum > logBytes || sum < logBytes-2*logLineBytes || sum != l.bytes {
		t.Errorf("all lines: got %d bytes, counted %d, want at most %d and not much less", sum, l.bytes, logBytes)
	}
	if last := lines[len(lines)-1].text; !strings.HasPrefix(last, fmt.Sprint(2*logBytes/logLineBytes, " ü")) ||
		!strings.HasSuffix(last, "…") {
		t.Errorf("the last line: got %.20q, want the newest, cut", last)
	}
	for i := range 2 * logKeep {
		l.add(logLine{text: fmt.Sprint(i)})
	}
	if lines = l.latest(time.Time{}, 0); len(lines) != logKeep || lines[0].text != fmt.Sprint(logKeep) {
		t.Errorf("short lines: got %d from %q, want %d from %d", len(lines), lines[0].text, logKeep, logKeep)
	}
}
