package ucx

import (
	"testing"
)

func TestStatsCountOperations(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	before := a.Worker().Stats()
	const n = 10
	for i := range n {
		if err := a.Send(ctx, Bytes(make([]byte, 100)), uint64(i)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recv(ctx, Bytes(make([]byte, 100)), uint64(i), FullMask); err != nil {
			t.Fatal(err)
		}
	}
	after := a.Worker().Stats()
	got := after.Ops["tag send"].Count - before.Ops["tag send"].Count
	gotBytes := after.Ops["tag send"].Bytes - before.Ops["tag send"].Bytes
	if got != n || gotBytes != 100*n {
		t.Errorf("%d sends of %d bytes counted, want %d of %d", got, gotBytes, n, 100*n)
	}
	if after.Endpoints != 1 {
		t.Errorf("%d endpoints, want 1", after.Endpoints)
	}
}

func TestStatsAfterClose(t *testing.T) {
	c, err := NewContext(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Drives != 0 {
		t.Errorf("stats of a closed worker: %+v", s)
	}
}
