package sqltext

import (
	"fmt"
	"strings"
)

// Pos is a position in the text of a statement. The zero value is unknown.
type Pos struct {
	// Line and Column begin with 1. Columns are counted in characters.
	Line, Column int
}

// At returns the position itself, so that nodes that embed it have a position.
func (p Pos) At() Pos { return p }

// String returns the position as text.
func (p Pos) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

// Error is an error in the text of a statement.
type Error struct {
	// Pos is the position of the first character that is wrong.
	Pos Pos
	// Text says what is wrong.
	Text string
}

// Error returns the position and the text.
func (e *Error) Error() string {
	if e.Pos.Line == 0 {
		return e.Text
	}
	return e.Pos.String() + ": " + e.Text
}

// Errorf returns an error at a position. A text with long names is cut.
func Errorf(p Pos, format string, args ...any) *Error {
	const most = 400
	text := fmt.Sprintf(format, args...)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return &Error{Pos: p, Text: text}
}

// Unsupported returns the error of syntax that is known and not supported.
func Unsupported(p Pos, what string) *Error {
	return Errorf(p, "%s is not supported", what)
}
