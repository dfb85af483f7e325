package worker

import (
	"errors"
	"fmt"

	"go.millstream.dev/wire"
)

var errSpec = errors.New("worker: the task is not one that can be read")

// isPythonSpec tells tasks of Python from those of Go.
func isPythonSpec(spec []byte) bool { return len(spec) > 0 && spec[0] == 0x80 }

// splitSpec returns the pickle and its buffers, which borrow from spec.
func splitSpec(spec []byte) ([][]byte, error) { return [][]byte{spec}, nil }

// pickledSpec is the run_spec of a compute-task that came as a pickle, as one byte string.
func pickledSpec(m *wire.Message, ref wire.Ref) ([]byte, error) {
	v, err := wire.DecodeRef(m, ref, wire.DecodeOptions{Keep: true, KeepPickled: true})
	if err != nil {
		return nil, fmt.Errorf("run_spec: %w", err)
	}
	p, ok := v.(*wire.Pickled)
	if !ok || len(p.Buffers) > 0 || len(p.Data) == 0 || p.Data[0] != 0x80 {
		return nil, errSpec
	}
	return append([]byte(nil), p.Data...), nil
}

// callPython runs a task of Python's.
func (r *run) callPython() error { return errPickled }
