package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// MaxErrorText bounds the text of an error and its traceback, in bytes each (distributed.admin.max-error-length).
const MaxErrorText = 10000

// builtin are the exceptions of every Python that can be constructed from one text.
var builtin = map[string]bool{
	"ArithmeticError": true, "AssertionError": true, "AttributeError": true, "BufferError": true,
	"ConnectionError": true,
	"EOFError":        true, "Exception": true, "FileExistsError": true, "FileNotFoundError": true, "IOError": true,
	"IndexError": true, "InterruptedError": true, "KeyError": true, "LookupError": true, "MemoryError": true,
	"NameError": true, "NotImplementedError": true, "OSError": true, "OverflowError": true, "PermissionError": true,
	"ProcessLookupError": true, "RecursionError": true, "ReferenceError": true, "RuntimeError": true,
	"TimeoutError": true, "TypeError": true, "ValueError": true, "ZeroDivisionError": true,
}

// ErrorMessage returns an error in the form of Dask's error_message: the reply to a request that failed (status
// "uncaught-error"), or part of other messages (status "error"). Python peers raise its exception, with the Go stack,
// if any, as a note.
//
// A *wire.Exception in err is sent as it is, whatever its class; see Exception for others.
func ErrorMessage(err error, status string) (msgpack.Map, error) {
	typ, text, trace, code := describe(err)
	var python *wire.Exception
	var data []byte
	if errors.As(err, &python) {
		typ, text = python.Type, clip(python.Text)
		data, err = pickle.DumpException(python)
	} else {
		data, err = pickleError(typ, text, trace)
	}
	if err != nil {
		return nil, fmt.Errorf("rpc: error %q cannot be sent: %w", text, err)
	}
	m := msgpack.Map{
		{Key: "status", Value: status},
		{Key: "exception", Value: wire.Serialize{Value: data}},
		{Key: "traceback", Value: nil},
		{Key: "exception_text", Value: typ + "(" + pythonRepr(text) + ")"},
		{Key: "traceback_text", Value: trace},
	}
	if code != "" {
		m.Set("millstream", msgpack.Map{{Key: "code", Value: code}})
	}
	return m, nil
}

// pickleError returns a pickled Python exception of one of the built-in classes.
func pickleError(typ, text, trace string) ([]byte, error) {
	exception := pickle.Call(pickle.Global{Module: "builtins", Name: typ}, text)
	if trace != "" {
		// Python 3.11 and later print notes; earlier ones keep the attribute.
		exception = exception.WithState(pickle.NewDict("__notes__",
			&pickle.List{Items: []pickle.Value{"remote traceback:\n" + trace}}))
	}
	return pickle.Append(nil, exception, pickle.Options{Protocol: 4})
}

// describe returns the exception that corresponds to a Go error.
func describe(err error) (typ, text, trace, code string) {
	text = err.Error()
	var exc *Exception
	var remote *RemoteError
	var panicked *PanicError
	var argument *ArgumentError
	switch {
	case errors.As(err, &exc):
		typ, text = exc.Type, exc.Message
	case errors.As(err, &remote): // forwarded by a server that called another
		typ, text, trace, code = remote.Type, remote.Message, remote.Traceback, remote.code
	case errors.As(err, &panicked):
		typ, trace = "RuntimeError", string(panicked.Stack)
	case errors.As(err, &argument):
		typ = "TypeError"
	case errors.Is(err, ErrUnknownOp):
		typ, code = "LookupError", codeUnknownOp
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		typ = "TimeoutError"
	case errors.Is(err, context.Canceled):
		typ, code = "RuntimeError", codeCancelled
	case errors.Is(err, fs.ErrPermission):
		typ = "PermissionError"
	}
	if !builtin[typ] {
		if typ != "" {
			text = typ + ": " + text
		}
		typ = "RuntimeError"
	}
	return typ, clip(text), clip(trace), code
}

// clip bounds a text and makes it valid UTF-8, as msgpack requires.
func clip(s string) string {
	if len(s) > MaxErrorText {
		s = s[:MaxErrorText] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// pythonRepr quotes a text like Python's repr, for display.
func pythonRepr(s string) string {
	q := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = `"`
	}
	return q + strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, q, `\`+q).Replace(s) + q
}

// ReplyError returns a *RemoteError for an answer whose status is an error, and nil for others. It is for decoded
// answers of Pool.Do.
func ReplyError(op, peer string, v any) error {
	m, ok := v.(msgpack.Map)
	if !ok || m.GetString("status") != "uncaught-error" {
		return nil
	}
	e := &RemoteError{Op: op, Peer: peer, Traceback: clip(m.GetString("traceback_text")),
		repr: clip(m.GetString("exception_text"))}
	if x, ok := m.Get("exception"); ok {
		e.Type, e.Message = readException(x)
	}
	if e.Type == "" {
		e.Type, e.Message = splitRepr(m.GetString("exception_text"))
	}
	e.Type, e.Message = clip(e.Type), clip(e.Message)
	if x, ok := m.Get("millstream"); ok {
		if own, ok := x.(msgpack.Map); ok {
			e.code = own.GetString("code")
		}
	}
	return e
}

// readException reads the class and text of a pickled exception without constructing it.
func readException(x any) (typ, text string) {
	data, ok := x.([]byte)
	if !ok {
		return "", ""
	}
	e, err := pickle.LoadException(data, pickle.Limits{})
	if err != nil {
		return "", ""
	}
	if e.Module == "" || e.Module == "builtins" {
		return e.Type, e.Text
	}
	return e.Module + "." + e.Type, e.Text
}

// splitRepr parses the repr of an exception: ValueError('no such key').
func splitRepr(s string) (typ, text string) {
	typ, text, ok := strings.Cut(s, "(")
	if !ok || typ == "" || strings.ContainsAny(typ, " '\"") {
		return "Exception", s
	}
	text = strings.TrimSuffix(text, ")")
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	return typ, text
}
