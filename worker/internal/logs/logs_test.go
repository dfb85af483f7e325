package logs

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestHandler(t *testing.T) {
	r := NewRecords()
	l := slog.New(NewHandler(slog.DiscardHandler, r))
	l.Debug("not kept")
	l.Info("first", "n", 1)
	l.With("a", "b").WithGroup("g").Warn("second", "n", 2)
	two := 2
	got := r.List(0, &two, false)
	if len(got) != 2 {
		t.Fatalf("%d records, want 2: %v", len(got), got)
	}
	for i, want := range [][2]string{
		{"WARNING", "millstream.worker - WARN - second a=b g.n=2"},
		{"INFO", "millstream.worker - INFO - first n=1"},
	} {
		if row := got[i].([]any); row[0] != want[0] || row[1] != want[1] {
			t.Errorf("record %d is %q, want %q", i, row, want)
		}
	}
}

// The levels of printed and of kept records are independent.
func TestHandlerPassesOn(t *testing.T) {
	for _, c := range []struct {
		level         slog.Level
		printed, kept int
	}{{slog.LevelDebug, 3, 2}, {slog.LevelInfo, 2, 2}, {slog.LevelError, 0, 2}} {
		var text strings.Builder
		r := NewRecords()
		l := slog.New(NewHandler(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: c.level}), r))
		l.Debug("one")
		l.Info("two", "a", "b")
		l.With("x", 1).WithGroup("g").Warn("three", "y", 2)
		if n := strings.Count(text.String(), "\n"); n != c.printed || len(r.List(0, nil, false)) != c.kept {
			t.Errorf("level %v: %d printed and %d kept, want %d and %d", c.level, n, len(r.List(0, nil, false)),
				c.printed, c.kept)
		}
		if c.printed > 0 && !strings.Contains(text.String(), "x=1 g.y=2") {
			t.Errorf("got no attributes in %s", &text)
		}
	}
}

func TestList(t *testing.T) {
	r := NewRecords()
	at := time.Unix(1_700_000_000, 500_000_000)
	for _, text := range []string{"a", "b", "c"} {
		r.Add(at, slog.LevelInfo, text)
	}
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		start int
		n     *int
		want  string
	}{
		{0, nil, "cba"}, {1, nil, "ba"}, {0, number(2), "cb"}, {1, number(1), "b"}, {9, number(2), ""},
		{-1, number(-1), ""}, {0, number(9), "cba"},
	} {
		var got string
		for _, row := range r.List(c.start, c.n, false) {
			got += row.([]any)[1].(string)
		}
		if got != c.want {
			t.Errorf("start %d: got %q, want %q", c.start, got, c.want)
		}
	}
	row := r.List(0, nil, true)[0].([]any)
	if len(row) != 3 || row[0] != 1_700_000_000.5 || row[1] != "INFO" {
		t.Errorf("record with its time: got %v", row)
	}
}

func TestLongText(t *testing.T) {
	r := NewRecords()
	r.Add(time.Now(), slog.LevelInfo, strings.Repeat("x", maxText))
	r.Add(time.Now(), slog.LevelInfo, strings.Repeat("x", maxText-1)+"é")
	list := r.List(0, nil, false)
	whole, cut := list[1].([]any)[1].(string), list[0].([]any)[1].(string)
	if len(whole) != maxText || cut != strings.Repeat("x", maxText-1)+"…" || !utf8.ValidString(cut) {
		t.Errorf("got %d bytes of %d, and %d of one more", len(whole), maxText, len(cut))
	}
}
