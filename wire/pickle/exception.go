package pickle

// Exception is a Python exception, as far as its pickle tells without running it.
type Exception struct {
	// Module and Type name its class: "builtins", "ValueError".
	Module, Type string
	// Args are its arguments, decoded.
	Args []any
	// Text is what str() of it would most likely be: the only argument's text, or all of them.
	Text string
	// Cause is the exception it was raised from, nil if there is none or the pickle does
	// not say: Python's own pickles do not, tblib's do.
	Cause *Exception

	tree *Object // as it was read, to be written again unchanged
}

// NewException makes an exception to be sent to Python, with one argument, its text.
func NewException(module, typ, text string) *Exception {
	return &Exception{Module: module, Type: typ, Args: []any{text}, Text: text}
}

// Error returns the type and the text: "ValueError: no such key".
func (e *Exception) Error() string {
	name := e.Type
	if e.Module != "" && e.Module != "builtins" {
		name = e.Module + "." + name
	}
	if e.Text == "" {
		return name
	}
	return name + ": " + e.Text
}

func (e *Exception) Unwrap() error {
	if e.Cause == nil {
		return nil
	}
	return e.Cause
}

func (e *Exception) pickleTree(int) (Value, error) {
	if e.tree != nil {
		return e.tree, nil
	}
	return &Object{Func: Global{e.Module, e.Type}, Args: Tuple(e.Args)}, nil
}
