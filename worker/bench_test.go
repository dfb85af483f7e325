package worker_test

import (
	"context"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// BenchmarkTasks measures the worker's part of a task: assignment, run, report and release, over tcp, with a scheduler
// of negligible cost.
func BenchmarkTasks(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	stream := make(chan comm.Comm, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		m, err := c.Read(ctx)
		if err != nil {
			return
		}
		m.Release()
		_ = write(ctx, c, msgpack.MapOf("status", "OK", "time", 0.0, "heartbeat-interval", 3600.0))
		stream <- c
	}()
	w, err := worker.Start(ctx, worker.Config{Scheduler: l.ContactAddr(), Threads: 1, Logger: quiet(),
		LocalDirectory: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	c := <-stream
	defer c.Abort()
	const batch = 1000
	call := spec(b, inc, val(1))
	orders := msgpack.AppendArrayHeader(nil, batch)
	keys := make([]any, batch)
	for i := range batch {
		keys[i] = "inc-0123456789abcdef-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		if orders, err = msgpack.Append(orders, compute(keys[i].(string), int64(i), call, nil)); err != nil {
			b.Fatal(err)
		}
	}
	free, err := msgpack.Append(nil, []any{msgpack.MapOf("op", "free-keys", "keys", keys, "stimulus_id", "x")})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		if err := c.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(orders)}}); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < batch; {
			m, err := c.Read(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for ops := message.ReadOps(m.Body()); ops.Next(); {
				if string(ops.Op()) == "task-finished" {
					n++
				}
			}
			m.Release()
		}
		if err := c.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(free)}}); err != nil {
			b.Fatal(err)
		}
		done += batch
	}
}
