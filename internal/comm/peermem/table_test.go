package peermem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// tableRig is a gpuRig whose owner has a table that the reader knows.
type tableRig struct {
	*gpuRig
	table *Table
}

func newTableRig(t *testing.T) *tableRig {
	t.Helper()
	g := &tableRig{gpuRig: newGPURig(t), table: &Table{}}
	t.Cleanup(func() {
		for range 2 {
			if err := g.table.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

// know lets the reader learn of the table, as with the first reply of the owner.
func (g *tableRig) know(t *testing.T) {
	t.Helper()
	q := g.request(t)
	field, device := fieldsOf(t, q)
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0x80}), g.frame(t, 0, 10)}}
	l, err := Lend(t.Context(), g.table, field, device, m)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Return()
	if _, err := q.Resolve(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Release()
}

// value returns a value of two frames on the device.
func (g *tableRig) value(t *testing.T, k int) *wire.Serialized {
	t.Helper()
	return &wire.Serialized{Header: fmt.Appendf(nil, "header %d", k),
		Frames: []wire.Frame{g.frame(t, k, 5000), g.frame(t, k+1, 300)}}
}

// publish publishes a value under a key.
func (g *tableRig) publish(t *testing.T, key string, k int) *Publication {
	t.Helper()
	s := g.value(t, k)
	p := g.table.Publish([]byte(key), s)
	if p == nil {
		t.Fatal("got no publication")
	}
	t.Cleanup(func() {
		p.Withdraw()
		s.Release()
	})
	return p
}

func (g *tableRig) read(t *testing.T, ctx context.Context, keys ...string) *Published {
	t.Helper()
	list := make([][]byte, len(keys))
	for i, k := range keys {
		list[i] = []byte(k)
	}
	got, err := g.peers.Read(ctx, "p", list)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func checkValue(t *testing.T, s *wire.Serialized, k int) {
	t.Helper()
	if want := fmt.Sprintf("header %d", k); string(s.Header) != want || len(s.Frames) != 2 {
		t.Fatalf("got %q with %d frames, want %q with 2", s.Header, len(s.Frames), want)
	}
	for i, n := range []int{5000, 300} {
		if f := s.Frames[i]; !f.OnDevice() || !bytes.Equal(stagetest.Bytes(f.Buffer()), patterned(k+i, n)) {
			t.Errorf("frame %d of value %d: %d bytes differ from those of the owner", i, k, f.Len())
		}
	}
	s.Release()
}

// Published results are copied without the owner, as soon as the reader knows its table.
func TestTableRead(t *testing.T) {
	g := newTableRig(t)
	var keys []string
	for k := range 40 {
		keys = append(keys, fmt.Sprint("key-", k))
		g.publish(t, keys[k], k)
	}
	if got := g.read(t, t.Context(), keys...); got != nil {
		t.Errorf("before a reply: got %+v, want nothing", got)
	}
	g.know(t)
	for range 2 {
		got := g.read(t, t.Context(), keys...)
		if got == nil || len(got.Values) != len(keys) || got.Bytes != 40*5300 || got.Scheme != "tls" {
			t.Fatalf("got %+v, want %d values of 5300 bytes", got, len(keys))
		}
		for k, s := range got.Values {
			checkValue(t, s, k)
		}
	}
	if got := g.read(t, t.Context(), keys[0], "other"); got != nil {
		t.Errorf("a result that is not published: got %+v, want nothing", got)
	}
	if got := g.read(t, t.Context()); got != nil {
		t.Errorf("no key: got %+v, want nothing", got)
	}
	g.peers.Forget("p")
	if got := g.read(t, t.Context(), keys[0]); got != nil {
		t.Errorf("after Forget: got %+v, want nothing", got)
	}
}

// A result that is withdrawn before or while it is copied is not returned, nor is another one in its slot.
func TestTableWithdraw(t *testing.T) {
	g := newTableRig(t)
	p := g.publish(t, "key", 1)
	g.know(t)
	other := g.value(t, 5)
	defer other.Release()
	var again *Publication
	ctx := &stepContext{Context: t.Context(), at: func() {
		p.Withdraw()
		again = g.table.Publish([]byte("key"), other) // in the same slot
	}}
	ctx.left.Store(3) // when the copies have started
	if got := g.read(t, ctx, "key"); got != nil || again == nil {
		t.Fatalf("withdrawn while it was copied: got %+v, want nothing", got)
	}
	got := g.read(t, t.Context(), "key")
	if got == nil {
		t.Fatal("published again: got nothing")
	}
	checkValue(t, got.Values[0], 5)
	again.Withdraw()
	again.Withdraw()
	if got := g.read(t, t.Context(), "key"); got != nil {
		t.Errorf("withdrawn: got %+v, want nothing", got)
	}
	var none *Publication
	none.Withdraw()
}

// A context that ends while the device copies ends the read with its cause.
func TestTableReadCanceled(t *testing.T) {
	g := newTableRig(t)
	g.publish(t, "key", 1)
	g.know(t)
	stop := errors.New("stop")
	inner, cancel := context.WithCancelCause(t.Context())
	ctx := &stepContext{Context: inner, at: func() { cancel(stop) }}
	ctx.left.Store(3)
	if got, err := g.peers.Read(ctx, "p", [][]byte{[]byte("key")}); got != nil || !errors.Is(err, stop) {
		t.Errorf("got %+v, %v, want %v", got, err, stop)
	}
	g.device.Drain()
	got := g.read(t, t.Context(), "key")
	if got == nil {
		t.Fatal("after the canceled read: got nothing, want the result")
	}
	checkValue(t, got.Values[0], 1)
}

// A result is published when its last write is complete, unless it is withdrawn before.
func TestTableWaits(t *testing.T) {
	g := newTableRig(t)
	g.publish(t, "first", 1)
	g.know(t)
	s, src := g.value(t, 1), g.frame(t, 9, 5000)
	defer src.Release()
	defer s.Release()
	gate := make(chan struct{})
	s.Frames[0].Buffer().SetReady(gateEvent{gate})
	late, never := g.table.Publish([]byte("late"), s), g.table.Publish([]byte("never"), s)
	if late == nil || never == nil {
		t.Fatal("got no publications")
	}
	if got := g.read(t, t.Context(), "late"); got != nil {
		t.Errorf("while it is written: got %+v, want nothing", got)
	}
	never.Withdraw()
	close(gate)
	g.table.waiting.Wait()
	s.Frames[0].Buffer().SetReady(nil)
	got := g.read(t, t.Context(), "late")
	if got == nil {
		t.Fatal("when it is written: got nothing, want the result")
	}
	checkValue(t, got.Values[0], 1)
	if got := g.read(t, t.Context(), "never"); got != nil {
		t.Errorf("withdrawn before it was written: got %+v, want nothing", got)
	}
	late.Withdraw()
}

// gateEvent is done when its channel is closed.
type gateEvent struct{ gate chan struct{} }

func (e gateEvent) Handle() uintptr { return 0 }

func (e gateEvent) Query() (bool, error) {
	select {
	case <-e.gate:
		return true, nil
	default:
		return false, nil
	}
}

func (e gateEvent) Wait(ctx context.Context) error {
	select {
	case <-e.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Values in other memory, long descriptions and keys whose slots are taken are not published.
func TestTableFull(t *testing.T) {
	g := newTableRig(t)
	own, err := g.device.Memory().Alloc(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Release()
	pooled := g.frame(t, 0, 100)
	defer pooled.Release()
	for name, s := range map[string]*wire.Serialized{
		"no frame":       {Header: []byte("x")},
		"host":           {Frames: []wire.Frame{wire.HeapFrame([]byte("x"))}},
		"host buffer":    {Frames: []wire.Frame{wire.BufferFrame(mem.FromBytes([]byte("x")))}},
		"partly host":    {Frames: []wire.Frame{pooled, wire.HeapFrame([]byte("x"))}},
		"own allocation": {Frames: []wire.Frame{wire.BufferFrame(own)}},
		"long header":    {Header: make([]byte, slotSize), Frames: []wire.Frame{pooled}},
	} {
		if p := g.table.Publish([]byte("key"), s); p != nil {
			t.Errorf("%s: got a publication, want none", name)
		}
	}
	if p := (*Table)(nil).Publish([]byte("key"), &wire.Serialized{}); p != nil {
		t.Error("no table: got a publication")
	}
	s := &wire.Serialized{Frames: []wire.Frame{pooled}}
	for i := range slotProbe + 2 {
		p := g.table.Publish([]byte("same"), s)
		if p == nil || (p.slot >= 0) != (i < slotProbe) {
			t.Errorf("publication %d of one key: got %+v, want a slot for the first %d only", i, p, slotProbe)
		}
		defer p.Withdraw()
	}
	if err := g.table.Close(); err != nil {
		t.Error(err)
	}
	if p := g.table.Publish([]byte("key"), s); p != nil {
		t.Error("after Close: got a publication")
	}
}

// A table of another process, a closed one and one that was replaced are not read, and are forgotten.
func TestTableGone(t *testing.T) {
	g := newTableRig(t)
	g.publish(t, "key", 1)
	for name, change := range map[string]func(*tableRef){
		"other process": func(r *tableRef) { r.pid = os.Getppid() },
		"no process":    func(r *tableRef) { r.pid = 1 << 30 },
		"other address": func(r *tableRef) { r.addr += slotSize },
		"no address":    func(r *tableRef) { r.addr = 0 },
		"replaced":      func(r *tableRef) { r.id[3]++ },
	} {
		g.know(t)
		ref := g.peers.tables["p"]
		change(&ref)
		g.peers.remember("p", ref)
		if got := g.read(t, t.Context(), "key"); got != nil {
			t.Errorf("%s: got %+v, want nothing", name, got)
		}
		if len(g.peers.tables) != 0 {
			t.Errorf("%s: the table is still known", name)
		}
	}
	g.know(t)
	SameProcess.Store(false)
	if got := g.read(t, t.Context(), "key"); got != nil {
		t.Errorf("own process: got %+v, want nothing", got)
	}
	SameProcess.Store(true)
	g.know(t)
	g.share.Refuse = errors.New("refused")
	g.peers.mapped.forget("p")
	if got := g.read(t, t.Context(), "key"); got != nil {
		t.Errorf("not mapped: got %+v, want nothing", got)
	}
	if q := g.peers.Request("p", millstreamPeer); q == nil || q.Fields() != 1 {
		t.Errorf("not mapped: got %+v, want a request for host memory", q)
	}
}

// Any content of a slot is a result of the key, with bounded parts, or none.
func FuzzSlot(f *testing.F) {
	part := appendDevicePart(nil, devicePart{1, []byte("handle"), 5, 10, 20})
	body := "\x93\xc4\x03key\xc4\x01h\x91" + string(part)
	f.Add(uint64(2), hashOf([]byte("key")), uint64(len(body)), []byte(body))
	f.Add(uint64(2), uint64(0), uint64(1<<60), []byte(strings.Repeat("\xdd\xff\xff\xff\xff", 10)))
	f.Fuzz(func(t *testing.T, seq, hash, n uint64, body []byte) {
		slot := make([]byte, slotSize)
		for i, v := range []uint64{seq, hash, n} {
			binary.NativeEndian.PutUint64(slot[8*i:], v)
		}
		copy(slot[slotHead:], body)
		got, ok := readSlot(slot, hashOf([]byte("key")), []byte("key"))
		if ok && (got.seq&1 != 0 || len(got.parts) == 0 || len(got.header) > slotSize) {
			t.Errorf("got %+v", got)
		}
	})
}
