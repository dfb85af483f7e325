package ucx

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// arrived probes until a message is there.
func arrived(t *testing.T, w *Worker, tag, mask uint64) RecvInfo {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		info, ok, err := w.Probe(tag, mask)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return info
		}
	}
	t.Fatalf("no message with tag %x, mask %x arrived", tag, mask)
	return RecvInfo{}
}

func TestProbe(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	w := b.Worker()
	for range 3 {
		if info, ok, err := w.Probe(0, AnyTag); ok || err != nil || info != (RecvInfo{}) {
			t.Fatalf("nothing was sent: %+v, %v, %v", info, ok, err)
		}
	}
	if err := a.Send(ctx, Bytes([]byte("first")), 0xa1); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(ctx, Bytes([]byte("second one")), 0xb2); err != nil {
		t.Fatal(err)
	}
	arrived(t, w, 0xb2, FullMask)
	// A probe takes nothing, and sees what a receive with the same mask would get.
	for range 2 {
		for _, c := range []struct {
			tag, mask uint64
			want      RecvInfo
		}{
			{0xa1, FullMask, RecvInfo{0xa1, 5}}, {0xb2, FullMask, RecvInfo{0xb2, 10}},
			{0, AnyTag, RecvInfo{0xa1, 5}}, {0x02, 0x0f, RecvInfo{0xb2, 10}}, {0xa0, 0xf0, RecvInfo{0xa1, 5}},
		} {
			if info, ok, err := w.Probe(c.tag, c.mask); !ok || err != nil || info != c.want {
				t.Errorf("probe %x/%x: %+v, %v, %v, want %+v", c.tag, c.mask, info, ok, err, c.want)
			}
		}
		for _, c := range [][2]uint64{{0xc3, FullMask}, {0x03, 0x0f}} {
			if info, ok, err := w.Probe(c[0], c[1]); ok || err != nil {
				t.Errorf("probe %x/%x found %+v, %v", c[0], c[1], info, err)
			}
		}
	}
	got := make([]byte, 16)
	for _, want := range []string{"first", "second one"} {
		info, err := b.Recv(ctx, Bytes(got), 0, AnyTag)
		if err != nil || string(got[:info.Len]) != want {
			t.Errorf("received %q, %v, want %q", got[:info.Len], err, want)
		}
	}
	if _, ok, _ := w.Probe(0, AnyTag); ok {
		t.Error("a received message is still found")
	}
}

// A removed message is out of matching: a later one with the same tag overtakes it, and
// it is received by its handle when its owner likes, once.
func TestProbeRemove(t *testing.T) {
	ctx := testContext(t)
	for _, n := range []int{0, 8, 4000, 300_000} {
		a, b := pair(t, Config{}, WorkerConfig{})
		w := b.Worker()
		if m, err := w.ProbeRemove(7, FullMask); m != nil || err != nil {
			t.Fatalf("nothing was sent: %v, %v", m, err)
		}
		data := testBytes(uint64(n)+1, n)
		s := a.StartSend(Bytes(data), 7)
		arrived(t, w, 7, FullMask)
		m, err := w.ProbeRemove(7, FullMask)
		if err != nil || m == nil || m.Info() != (RecvInfo{7, n}) {
			t.Fatalf("%d bytes: %+v, %v", n, m, err)
		}
		if _, ok, _ := w.Probe(7, FullMask); ok {
			t.Errorf("%d bytes: a removed message is still found", n)
		}
		late := make([]byte, 4)
		if err := both(func() error { return a.Send(ctx, Bytes([]byte("late")), 7) },
			func() error { _, err := b.Recv(ctx, Bytes(late), 7, FullMask); return err }); err != nil ||
			string(late) != "late" {
			t.Errorf("%d bytes: the later message: %q, %v", n, late, err)
		}
		got := make([]byte, n)
		r := m.StartRecv(Bytes(got))
		if err := errors.Join(r.Wait(ctx), s.Wait(ctx)); err != nil || r.Info() != (RecvInfo{7, n}) ||
			!bytes.Equal(got, data) {
			t.Errorf("%d bytes: %+v, %v", n, r.Info(), err)
		}
		if err := m.StartRecv(Bytes(got)).Wait(ctx); !errors.Is(err, errNoMessage) {
			t.Errorf("%d bytes: second receive: %v", n, err)
		}
	}
}

// Messages that nobody received, removed or not, keep neither the worker nor its peer
// from closing.
func TestUnconsumedMessages(t *testing.T) {
	ctx := testContext(t)
	for _, n := range []int{8, 300_000} {
		a, b := pair(t, Config{}, WorkerConfig{})
		w := b.Worker()
		var sends []*Request
		for tag := range uint64(4) {
			sends = append(sends, a.StartSend(Bytes(make([]byte, n)), tag))
			arrived(t, w, tag, FullMask)
		}
		m, err := w.ProbeRemove(2, FullMask)
		if err != nil || m == nil {
			t.Fatalf("%v, %v", m, err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%d bytes: close with messages left: %v", n, err)
		}
		if _, err := m.Recv(ctx, Bytes(make([]byte, n))); !errors.Is(err, ErrClosed) {
			t.Errorf("%d bytes: receive from a closed worker: %v", n, err)
		}
		for _, s := range sends { // short ones were done; long ones end with their receiver
			if err := s.Wait(ctx); n > 1000 && err == nil {
				t.Errorf("a send of %d bytes that nobody received succeeded", n)
			}
		}
	}
}

// What has arrived can be received after its sender has gone.
func TestProbeAfterPeerClosed(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	w := b.Worker()
	if err := a.Send(ctx, Bytes([]byte("farewell")), 5); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	if info, ok, err := w.Probe(5, FullMask); !ok || err != nil || info.Len != 8 {
		t.Fatalf("probe after the sender's close: %+v, %v, %v", info, ok, err)
	}
	got := make([]byte, 8)
	if _, err := w.Recv(ctx, Bytes(got), 5, FullMask); err != nil || string(got) != "farewell" {
		t.Errorf("%q, %v", got, err)
	}
	if err := b.Send(ctx, Bytes(got), 6); !errors.Is(err, ErrPeerClosed) {
		t.Errorf("send to a peer that has closed: %v", err)
	}
}
