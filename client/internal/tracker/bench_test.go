package tracker

import (
	"fmt"
	"testing"

	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/wire"
)

// BenchmarkReceive applies batches of 100 reports that a result is in memory.
func BenchmarkReceive(b *testing.B) {
	c := empty(b)
	var list []any
	for i := range 100 {
		name := fmt.Sprint("task-", i)
		c.hold(k(name))
		list = append(list, wire.NewDict("op", "key-in-memory", "key", name, "workers", []any{"tcp://127.0.0.1:1"}))
	}
	m := encoded(b, list)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Receive(m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSubmitTake submits a task, takes the message that has it, and releases it.
func BenchmarkSubmitTake(b *testing.B) {
	c := empty(b)
	key, spec := k("task"), []byte("spec")
	b.ReportAllocs()
	for b.Loop() {
		s, err := c.Submit(key, spec, nil, &taskgraph.Annotations{}, Options{FIFO: "1s"})
		if err != nil {
			b.Fatal(err)
		}
		if _, m := c.Take(); m == nil {
			b.Fatal("nothing to send")
		}
		c.Release(NewHandle(s))
		if _, m := c.Take(); m == nil {
			b.Fatal("nothing is released")
		}
	}
}
