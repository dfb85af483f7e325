package peermem

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// ordinal numbers the devices of tests: queues of copies are kept by ordinal.
var ordinal atomic.Int64

// gpuRig is a device whose memory an owner and a reader share, both in this process.
type gpuRig struct {
	device *stagetest.Device
	share  *stagetest.Sharing
	pool   *mem.Pool // of the owner
	peers  *Peers    // of the reader
}

func newGPURig(t *testing.T) *gpuRig {
	t.Helper()
	leak.Check(t)
	SameProcess.Store(true)
	d := stagetest.NewDevice(5000 + int(ordinal.Add(1)))
	pool, err := mem.NewPool(d.Memory(), mem.PoolConfig{SlabBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	g := &gpuRig{device: d, share: d.Share(t), pool: pool, peers: &Peers{Device: d.Memory()}}
	t.Cleanup(func() {
		SameProcess.Store(false)
		g.peers.Close()
		d.Drain()
		if n := g.share.Mapped(); n != 0 {
			t.Errorf("%d regions are still mapped, want 0", n)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		if n := d.Live(); n != 0 {
			t.Errorf("%d bytes of device memory are still allocated, want 0", n)
		}
	})
	return g
}

// frame returns a frame in memory of the pool, filled by a pattern.
func (g *gpuRig) frame(t *testing.T, k, n int) wire.Frame {
	t.Helper()
	b, err := g.pool.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	stagetest.Fill(b, patterned(k, n))
	return wire.BufferFrame(b)
}

func patterned(k, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = pattern(k, i)
	}
	return data
}

// gpuSizes are the lengths of lent frames. Short ones are lent too.
var gpuSizes = []int{100_000, 1, 3000}

// lend returns a reply with frames on the device that are lent to the request, and the loan.
func (g *gpuRig) lend(t *testing.T, q *Request) (*wire.Message, *Loan) {
	t.Helper()
	b := msgpack.AppendMapHeader(nil, 1)
	b = msgpack.AppendString(msgpack.AppendString(b, "status"), "OK")
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
	for k, n := range gpuSizes {
		m.Frames = append(m.Frames, wire.HeapFrame([]byte("header")), g.frame(t, k, n))
	}
	field, device := fieldsOf(t, q)
	l, err := Lend(t.Context(), nil, field, device, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Return)
	return m, l
}

// fieldsOf returns the two fields of a request, the second nil if there is none.
func fieldsOf(t *testing.T, q *Request) (field, device []byte) {
	t.Helper()
	r := msgpack.NewReader(q.Append(nil))
	for i := range q.Fields() {
		if err := r.Skip(); err != nil {
			t.Fatal(err)
		}
		raw, err := r.ReadRaw()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			field = raw
		} else {
			device = raw
		}
	}
	return field, device
}

func (g *gpuRig) request(t *testing.T) *Request {
	t.Helper()
	q := g.peers.Request("p", millstreamPeer)
	if q == nil || q.Fields() != 2 {
		t.Fatalf("got %+v, want a request for GPU memory", q)
	}
	return q
}

// Frames on the device are copied to the device of the reader; the region of the pool is mapped once.
func TestDeviceRead(t *testing.T) {
	g := newGPURig(t)
	for range 3 {
		q := g.request(t)
		m, loan := g.lend(t, q)
		want := int64(gpuSizes[0] + gpuSizes[1] + gpuSizes[2])
		if got := loan.Bytes(); got != (Lent{Device: want}) {
			t.Errorf("got a loan of %+v, want %d bytes on the device", got, want)
		}
		n, err := q.Resolve(t.Context(), m)
		if err != nil || n != (Lent{Device: want}) {
			t.Fatalf("got %+v, %v, want %d bytes on the device", n, err, want)
		}
		for k, size := range gpuSizes {
			f := m.Frames[2+2*k]
			if !f.OnDevice() || !bytes.Equal(stagetest.Bytes(f.Buffer()), patterned(k, size)) {
				t.Errorf("frame %d: %d bytes differ from those of the owner", k, f.Len())
			}
		}
		m.Release()
		loan.Return()
	}
	if n := g.share.Opened(); n != 1 {
		t.Errorf("the pool was mapped %d times, want once", n)
	}
}

// A loan that ends before or while the device copies is refused, and so is what was copied.
func TestDeviceLoanEnds(t *testing.T) {
	g := newGPURig(t)
	for name, steps := range map[string]int64{"before": 0, "between": 1} {
		q := g.request(t)
		m, loan := g.lend(t, q)
		ctx := &stepContext{Context: t.Context(), at: loan.Return}
		if ctx.left.Store(steps); steps == 0 {
			loan.Return()
		}
		if n, err := q.Resolve(ctx, m); !errors.Is(err, ErrRead) || errors.Is(err, ErrDevice) || n != (Lent{}) {
			t.Errorf("%s: got %+v, %v, want %v", name, n, err, ErrRead)
		}
		m.Release()
	}
}

// A context that ends while the device copies ends the read. The device then still writes to the memory, which is not
// allocated again before it is done.
func TestDeviceReadCanceled(t *testing.T) {
	g := newGPURig(t)
	q := g.request(t)
	m, loan := g.lend(t, q)
	stop := errors.New("stop")
	inner, cancel := context.WithCancelCause(t.Context())
	ctx := &stepContext{Context: inner, at: func() { cancel(stop) }}
	ctx.left.Store(5) // after all copies were started
	if _, err := q.Resolve(ctx, m); !errors.Is(err, stop) || errors.Is(err, ErrRead) {
		t.Errorf("got %v, want %v", err, stop)
	}
	before := g.device.Live()
	m.Release()
	loan.Return()
	g.peers.Forget("p")
	if after := g.device.Live(); after == before-int64(gpuSizes[0]+gpuSizes[1]+gpuSizes[2]) || g.share.Mapped() != 1 {
		t.Errorf("memory of copies in flight was freed: %d bytes before, %d after, %d mapped", before, after,
			g.share.Mapped())
	}
}

// Loans of GPU memory that are wrong or stale are refused.
func TestDeviceRefused(t *testing.T) {
	g := newGPURig(t)
	q := g.request(t)
	lent, _ := g.lend(t, q)
	good, ok, err := readLoan(lent.Body(), len(lent.Frames)-1)
	if err != nil || !ok || len(good.device) != len(gpuSizes) {
		t.Fatalf("got %+v, %v, %v, want a loan of %d frames", good, ok, err, len(gpuSizes))
	}
	if _, _, err := readLoan(lent.Body(), len(gpuSizes)-1); !errors.Is(err, errFields) {
		t.Errorf("loan of more frames than the message has: got %v, want %v", err, errFields)
	}
	for name, change := range map[string]func(*devicePart){
		"no frame":        func(p *devicePart) { p.frame = 100 },
		"negative frame":  func(p *devicePart) { p.frame = -1 },
		"body":            func(p *devicePart) { p.frame = 0 },
		"frame that came": func(p *devicePart) { p.frame = 1 },
		"frame twice":     func(p *devicePart) { p.frame = good.device[1].frame },
		"no handle":       func(p *devicePart) { p.handle = nil },
		"long handle":     func(p *devicePart) { p.handle = make([]byte, maxHandle+1) },
		"wrong handle":    func(p *devicePart) { p.handle = []byte("handle") },
		"empty":           func(p *devicePart) { p.size = 0 },
		"negative size":   func(p *devicePart) { p.size = -1 },
		"too long":        func(p *devicePart) { p.size = 1<<20 + 1 },
		"overflow":        func(p *devicePart) { p.offset, p.size = 1<<62, 1<<62 },
		"negative offset": func(p *devicePart) { p.offset = -1 },
		"beyond the end":  func(p *devicePart) { p.offset = 1<<20 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			parts, list := []byte(nil), append([]devicePart(nil), good.device...)
			change(&list[0])
			for _, p := range list {
				parts = appendDevicePart(parts, p)
			}
			b := msgpack.AppendMapHeader(nil, 0)
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(appendLoan(b, good, nil, 0, parts, len(list)))}}
			for range gpuSizes {
				m.Frames = append(m.Frames, wire.HeapFrame([]byte("header")), wire.HeapFrame(nil))
			}
			if n, err := q.Resolve(t.Context(), m); !errors.Is(err, ErrRead) || n != (Lent{}) {
				t.Errorf("got %+v, %v, want %v", n, err, ErrRead)
			}
			m.Release()
		})
	}
	t.Run("not requested", func(t *testing.T) {
		host := *q
		host.gpu = ""
		if _, err := host.Resolve(t.Context(), lent); !errors.Is(err, ErrRead) {
			t.Errorf("got %v, want %v", err, ErrRead)
		}
	})
}

// A region at the address of one that was freed is another region: it is mapped again.
func TestDeviceStaleMapping(t *testing.T) {
	g := newGPURig(t)
	q := g.request(t)
	p := devicePart{size: 1}
	whole := g.frame(t, 0, 1000)
	defer whole.Release()
	p.handle = export(whole.Buffer()).handle
	for i, serial := range []uint64{1, 1, 2, 2} {
		p.serial = serial
		b, err := g.peers.mapped.buffer(copier.Share(), g.device.Ordinal(), q.peer, &p)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		if got, want := g.share.Opened(), int64(1+i/2); got != want || g.share.Mapped() != 1 {
			t.Errorf("use %d: mapped %d times, %d now, want %d and 1", i, got, g.share.Mapped(), want)
		}
	}
}

// The number of mapped regions is bounded, and those of a peer that is gone are unmapped.
func TestDeviceMappings(t *testing.T) {
	g := newGPURig(t)
	whole := g.frame(t, 0, 1000)
	defer whole.Release()
	handle := export(whole.Buffer()).handle
	for i := range 2 * maxMappings {
		h := bytes.Clone(handle)
		h[8] += byte(i) // another length
		peer := []string{"p", "q"}[i%2]
		b, err := g.peers.mapped.buffer(copier.Share(), g.device.Ordinal(), peer, &devicePart{handle: h, size: 1})
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if n := g.share.Mapped(); n != maxMappings {
		t.Errorf("%d regions are mapped, want %d", n, maxMappings)
	}
	g.peers.Forget("p")
	if n := g.share.Mapped(); n != maxMappings/2 {
		t.Errorf("after one of two peers is gone %d regions are mapped, want %d", n, maxMappings/2)
	}
	g.peers.Close()
	_, err := g.peers.mapped.buffer(copier.Share(), g.device.Ordinal(), "p", &devicePart{handle: handle})
	if err == nil {
		t.Error("after Close: got memory of a peer, want an error")
	}
}

// If memory of a peer cannot be mapped or copied, later requests are for its host memory only.
func TestDeviceDenied(t *testing.T) {
	failed := errors.New("failed")
	for name, fail := range map[string]func(*gpuRig){
		"not mapped": func(g *gpuRig) { g.share.Refuse = failed },
		"not copied": func(g *gpuRig) { g.device.FailCopy(2, failed) },
	} {
		g := newGPURig(t)
		fail(g)
		q := g.request(t)
		m, _ := g.lend(t, q)
		_, err := q.Resolve(t.Context(), m)
		if !errors.Is(err, ErrRead) || !errors.Is(err, ErrDevice) || !errors.Is(err, failed) {
			t.Errorf("%s: got %v, want %v", name, err, ErrDevice)
		}
		m.Release()
		g.peers.Deny("p", err)
		if q := g.peers.Request("p", millstreamPeer); q == nil || q.Fields() != 1 {
			t.Errorf("%s: got %+v, want a request for host memory", name, q)
		}
		if q := g.peers.Request("q", millstreamPeer); q == nil || q.Fields() != 2 {
			t.Errorf("%s: got %+v, want a request for GPU memory to another peer", name, q)
		}
	}
}

// Without memory on the device the error is that of the allocator: the peer is not at fault.
func TestDeviceNoMemory(t *testing.T) {
	g := newGPURig(t)
	limit, err := mem.NewLimit(g.device.Memory(), int64(gpuSizes[0]))
	if err != nil {
		t.Fatal(err)
	}
	g.peers.Device = limit
	q := g.request(t)
	m, _ := g.lend(t, q)
	if _, err := q.Resolve(t.Context(), m); !errors.Is(err, mem.ErrOutOfMemory) || errors.Is(err, ErrRead) {
		t.Errorf("got %v, want %v", err, mem.ErrOutOfMemory)
	}
	m.Release()
}

// Memory of another GPU, an allocation of its own and frames for a reader without a GPU are sent.
func TestDeviceNotLent(t *testing.T) {
	g := newGPURig(t)
	field, device := fieldsOf(t, g.request(t))
	own, err := g.device.Memory().Alloc(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		frame  wire.Frame
		device []byte
	}{
		"other GPU":      {g.frame(t, 0, 1000), msgpack.AppendString(nil, "GPU-other")},
		"no GPU":         {g.frame(t, 0, 1000), nil},
		"own allocation": {wire.BufferFrame(own), device},
	} {
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0x80}), c.frame}}
		if l, err := Lend(t.Context(), nil, field, c.device, m); l != nil || err != nil || m.Frames[1].Len() != 1000 {
			t.Errorf("%s: got %v, %v and a frame of %d bytes, want no loan", name, l, err, m.Frames[1].Len())
		}
		m.Release()
	}
	if l, err := Lend(t.Context(), nil, field, []byte{1}, reply()); l != nil || err == nil {
		t.Errorf("field that is no text: got %v, %v, want an error", l, err)
	}
}

// The owner waits for the last write of memory before it lends it, and the loan ends with the context.
func TestDeviceLendWaits(t *testing.T) {
	g := newGPURig(t)
	field, device := fieldsOf(t, g.request(t))
	f, src := g.frame(t, 0, 1000), g.frame(t, 7, 1000)
	defer src.Release()
	if _, err := g.device.Queue().Copy(f.Buffer(), src.Buffer()); err != nil { // runs when it is waited for
		t.Fatal(err)
	}
	first := g.frame(t, 1, 10)
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0x80}), first, f}}
	l, err := Lend(t.Context(), nil, field, device, m)
	if err != nil || l == nil {
		t.Fatalf("got %v, %v, want a loan", l, err)
	}
	if got := stagetest.Bytes(f.Buffer()); !bytes.Equal(got, patterned(7, 1000)) {
		t.Error("memory was lent before it was written")
	}
	l.Return()
	m.Release()

	f = g.frame(t, 0, 1000)
	if _, err := g.device.Queue().Copy(f.Buffer(), src.Buffer()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m = &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0x80}), g.frame(t, 1, 10), f}}
	if l, err := Lend(ctx, nil, field, device, m); l != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v, %v, want %v", l, err, context.Canceled)
	}
	m.Release()
}
