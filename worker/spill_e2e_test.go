package worker_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// The functions make and check data that identifies its task.
var (
	sow = client.Func2("worker_test.sow", func(_ context.Context, seed, n int) ([]byte, error) {
		return crop(seed, n), nil
	})
	reap = client.Func2("worker_test.reap", func(_ context.Context, seed int, b []byte) (bool, error) {
		return bytes.Equal(b, crop(seed, len(b))), nil
	})
)

func crop(seed, n int) []byte {
	row := make([]byte, 1000)
	for i := range row {
		row[i] = byte((i*7 + seed*13) >> 2)
	}
	return bytes.Repeat(row, n/len(row)+1)[:n]
}

// calm returns the memory of a process that is never short of it: only the size of the data decides.
func calm() int64 { return 0 }

// Eight times as much data as the worker may keep is stored, read back and unchanged.
func TestSpillThrough(t *testing.T) {
	const limit, size, n = 2 << 20, 128 << 10, 128
	for _, compression := range []string{"lz4", "false"} {
		t.Run(compression, func(t *testing.T) {
			c := start(t, "inproc://", 1, worker.Config{MemoryLimit: limit,
				Memory: worker.Memory{Usage: calm, Compression: compression}})
			ctx := testContext(t)
			fields := make([]*client.Future[[]byte], n)
			for i := range fields {
				fields[i] = sow.Submit(ctx, c.client, client.Val(i), client.Val(size))
			}
			for _, f := range fields {
				if err := f.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			var wrote, read int
			oks := make([]*client.Future[bool], n)
			for i, f := range fields {
				oks[i] = reap.Submit(ctx, c.client, client.Val(i), f)
			}
			for i, f := range oks {
				if ok, err := f.Result(ctx); !ok || err != nil {
					t.Fatalf("%d: %v, %v", i, ok, err)
				}
			}
			for _, tr := range c.workers[0].DiskTransfers() {
				if tr.Action == "disk-write" {
					wrote++
				} else {
					read++
				}
			}
			if least := n - limit/size; wrote < least || read < least {
				t.Errorf("got %d results written and %d read, want at least %d", wrote, read, least)
			}
			// A client gets spilled results like others.
			if b, err := fields[0].Result(ctx); err != nil || len(b) != size || b[5] != byte(35>>2) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// A peer fetches spilled results, and no file is left.
func TestSpilledForPeer(t *testing.T) {
	const limit, size, n = 2 << 20, 256 << 10, 16
	d := direct(t, "tcp://127.0.0.1:0")
	a, da := d.worker(t, worker.Config{MemoryLimit: limit, Memory: worker.Memory{Usage: calm}})
	_, db := d.worker(t, worker.Config{})
	key := func(i int) string { return string(rune('a' + i)) }
	for i := range n {
		da.send(t, compute(key(i), int64(i+1), spec(t, fill, val(size+i)), nil))
		da.receive(t, "task-finished")
	}
	if tr := a.DiskTransfers(); len(tr) == 0 {
		t.Fatal("got no spilled results")
	}
	want := bytes.Repeat([]byte("x"), size+n)
	for i := range n {
		db.send(t, compute("length-"+key(i), int64(100+i), spec(t, length, ref[[]byte](key(i))),
			map[string][]string{key(i): {a.Address()}}))
		db.receive(t, "task-finished")
		got := value(t, d.fetch(t, a.Address(), key(i)), key(i))
		if s, ok := got.(*wire.Serialized); ok {
			v, err := s.Decode(wire.DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got = v
		}
		if b, ok := got.([]byte); !ok || !bytes.Equal(b, want[:size+i]) {
			t.Fatalf("%s: a %T", key(i), got)
		}
	}
}

// A worker that can neither keep nor spill a result returns the task to the scheduler; it runs on another worker, and
// the first takes no more tasks until its data is freed.
func TestNoRoomGivesTaskBack(t *testing.T) {
	const limit, size = 4 << 20, 1 << 20
	c := start(t, "inproc://", 0, worker.Config{})
	full := c.add(t, worker.Config{Threads: 1, MemoryLimit: limit, Memory: worker.Memory{Usage: calm, MaxSpill: 1,
		Interval: 10 * time.Millisecond}})
	ctx := testContext(t)
	// While it is the only worker it takes what fits: the ceiling is three of four MiB.
	var first []*client.Future[[]byte]
	for i := range 3 {
		f := sow.Submit(ctx, c.client, client.Val(i), client.Val(size))
		if err := f.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		first = append(first, f)
	}
	next := sow.Submit(ctx, c.client, client.Val(3), client.Val(size))
	for full.Status() != "paused" {
		select {
		case <-ctx.Done():
			t.Fatal("worker not paused")
		case <-time.After(time.Millisecond):
		}
	}
	roomy := c.add(t, worker.Config{Threads: 1})
	if b, err := next.Result(ctx); err != nil || len(b) != size {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	holders, err := c.client.WhoHas(ctx, next)
	if err != nil || len(holders[next.Key()]) != 1 || holders[next.Key()][0] != roomy.Address() {
		t.Errorf("holders: got %v, %v, want %s", holders, err, roomy.Address())
	}
	// The first results are still there, and when they are freed there is room again.
	for i, f := range first {
		if b, err := f.Result(ctx); err != nil || len(b) != size || b[9] != byte((63+i*13)>>2) {
			t.Errorf("%d: %d bytes, %v", i, len(b), err)
		}
		f.Release()
	}
	for full.Status() != "running" {
		select {
		case <-ctx.Done():
			t.Fatal("worker still paused")
		case <-time.After(time.Millisecond):
		}
	}
}
