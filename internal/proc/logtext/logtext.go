// Package logtext makes text of peers safe for line-based logs.
package logtext

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine returns text as one line: control characters, such as newlines and terminal escapes, and invalid UTF-8 become
// Go escapes.
func OneLine(text string) string {
	if strings.IndexFunc(text, unsafe) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] != "\ufffd"[0]:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[i])|0x100, 16)[1:])
		case unsafe(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafe reports whether a character ends the line or changes what a terminal shows.
func unsafe(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}
