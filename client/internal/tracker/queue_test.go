package tracker

import (
	"context"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

func TestQueueKeepsOrder(t *testing.T) {
	c := offline(t)
	h := &Handle{s: c.keys.Get(task.NewKey("a"))}
	c.release(h)
	g := c.graphFor(Options{})
	ks, _ := c.hold(task.NewKey("a"))
	g.w.Spec(ks.key, []byte("s"), nil, taskgraph.None, 0)
	g.want(ks)
	if again := c.graphFor(Options{}); again != g {
		t.Error("consecutive tasks are in two graphs, want one")
	}
	if other := c.graphFor(Options{Actors: true}); other == g {
		t.Error("tasks with other options are in one graph, want two")
	}
	items, m := c.Take()
	if len(items) != 3 || items[0].raw == nil || items[1].graph != g {
		t.Fatalf("%d messages", len(items))
	}
	var names []string
	ops := message.ReadOps(m.Body())
	for ops.Next() {
		names = append(names, string(ops.Op()))
	}
	if ops.Err() != nil || len(names) != 3 || names[0] != "client-releases-keys" || names[1] != "update-graph" {
		t.Errorf("ops %v, %v", names, ops.Err())
	}
	if err := msgpackOnly(m.Body()); err != nil {
		t.Error(err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	c := offline(t)
	c.out, c.queued = []Item{{raw: message.EmptyMap}}, maxQueued
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.WaitForSpace(ctx); err != context.Canceled {
		t.Errorf("full queue: got %v, want context.Canceled", err)
	}
	done := make(chan error, 1)
	go func() { done <- c.WaitForSpace(context.Background()) }()
	c.Take()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func msgpackOnly(b []byte) error {
	_, err := msgpack.Decode(b)
	return err
}
