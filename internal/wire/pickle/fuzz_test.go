package pickle_test

import (
	"bytes"
	"errors"
	"testing"

	"go.millstream.dev/internal/wire/pickle"
)

// FuzzLoad reads anything. What can be read can be written, and read again as the same.
func FuzzLoad(f *testing.F) {
	for _, c := range goldens(f) {
		if len(c.Pickle) < 2000 {
			f.Add(c.Pickle, bytes.Join(c.Buffers, nil))
		}
	}
	var tasks goldenTasks
	readJSON(f, "tasks.json", &tasks)
	for _, c := range tasks.Tasks {
		f.Add(c.Pickle, []byte(nil))
	}
	f.Add(tasks.Exception, []byte(nil))
	f.Fuzz(func(t *testing.T, data, buffer []byte) {
		v, n, err := pickle.LoadNext(data, [][]byte{buffer, buffer}, pickle.Limits{Nodes: 1 << 16, Depth: 500})
		if n < 0 || n > len(data) {
			t.Fatalf("%d of %d bytes", n, len(data))
		}
		if err != nil {
			var e *pickle.Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(data) {
				t.Fatalf("%v says nothing", err)
			}
			return
		}
		if !pickle.Equal(v, v) {
			t.Fatalf("%s is not equal to itself", pickle.Repr(v))
		}
		pickle.References(v)
		if task, ok := pickle.AsTask(v); ok {
			pickle.FuncName(task.Func)
		}
		pickle.AsException(v)
		pickle.Traceback(v)
		decoded, err := pickle.Decode(v)
		if err == nil {
			if _, err := pickle.Append(nil, decoded, pickle.Options{}); err != nil {
				t.Logf("decoded %s: %v", pickle.Repr(v), err) // a date that Python has not, say
			}
		}
		var out [][]byte
		again, err := pickle.Append(nil, v, pickle.Options{Protocol: 5, Buffers: &out})
		if err != nil {
			t.Fatalf("%s: %v", pickle.Repr(v), err)
		}
		w, err := pickle.Load(again, out, pickle.Limits{Nodes: 1 << 22, Depth: 5000})
		if err != nil {
			t.Fatalf("%s: %v", pickle.Repr(v), err)
		}
		if !pickle.Equal(v, w) {
			t.Fatalf("wrote %s\n read %s", pickle.Repr(v), pickle.Repr(w))
		}
	})
}
