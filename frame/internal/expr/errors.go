package expr

import "fmt"

// TypeError is returned by Bind for an expression that does not fit a schema: a missing column, or operands of
// unsuitable types.
type TypeError struct {
	// Reason names the expression, its columns and their types.
	Reason string
}

// Error returns the reason.
func (e *TypeError) Error() string { return "expr: " + e.Reason }

func typeErrorf(format string, args ...any) error { return &TypeError{fmt.Sprintf(format, args...)} }
