package worker

import (
	"errors"

	"go.millstream.dev/rpc"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/state"
)

// failure is an error as the scheduler's messages have it: a pickled Python exception and
// its text. Python clients raise it, Go clients read it.
func failure(err error) *state.Failure {
	m, encodeErr := rpc.ErrorMessage(withStack(err), "error")
	if encodeErr != nil {
		m, _ = rpc.ErrorMessage(errors.New(encodeErr.Error()), "error") // plain text always has a form
	}
	f := &state.Failure{ExceptionText: m.GetString("exception_text"), TracebackText: m.GetString("traceback_text")}
	x, _ := m.Get("exception")
	if s, ok := x.(wire.Serialize); ok {
		if enc, err := wire.EncodeValue(s.Value, wire.EncodeOptions{}); err == nil {
			f.Exception = enc
		}
	}
	return f
}
