package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// styles has the glyph and the color of each severity. The glyph alone carries the meaning.
var styles = map[Severity]struct{ glyph, color string }{
	OK:   {"✓", "\x1b[32m"},
	NA:   {"-", "\x1b[90m"},
	Info: {"·", "\x1b[36m"},
	Warn: {"!", "\x1b[33m"},
	Fail: {"✗", "\x1b[31m"},
}

const (
	plain    = "\x1b[0m"
	maxWidth = 96
)

// WriteText writes the report as text, with terminal colors if color is set.
func (r Report) WriteText(w io.Writer, color bool) error {
	var out strings.Builder
	for _, f := range r.Findings {
		l := styles[f.Severity]
		glyph := l.glyph
		if color {
			glyph = l.color + l.glyph + plain
		}
		fmt.Fprintf(&out, "%s %s\n", glyph, f.Title)
		if f.Severity == OK || f.Severity == NA {
			continue // nothing to explain
		}
		for _, line := range wrap(f.Detail, maxWidth-4) {
			fmt.Fprintf(&out, "    %s\n", line)
		}
		for i, line := range wrap(f.Fix, maxWidth-9) {
			if i == 0 {
				fmt.Fprintf(&out, "    fix: %s\n", line)
			} else {
				fmt.Fprintf(&out, "         %s\n", line)
			}
		}
	}
	fmt.Fprintf(&out, "\n%d ok, %d not applicable, %d info, %d warnings, %d failures\n",
		r.Count(OK), r.Count(NA), r.Count(Info), r.Count(Warn), r.Count(Fail))
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Worst Severity `json:"worst"`
		Report
	}{r.Worst(), r})
}

// wrap breaks text at spaces into lines of at most width characters; a longer word (a path) gets its own line.
func wrap(text string, width int) []string {
	var lines []string
	var line string
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
