package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// fakeDevice is memory that the CPU cannot access: it maps addresses of its own to bytes.
type fakeDevice struct {
	mu         sync.Mutex
	next       uintptr
	data       map[uintptr][]byte
	used, peak int64
	size       int64         // 0 means no limit
	fail       error         // of copies to the host
	gate       chan struct{} // if not nil, copies to the host wait until it is closed
}

func newFakeDevice() *fakeDevice { return &fakeDevice{next: 1 << 40, data: map[uintptr][]byte{}} }

// put allocates and fills memory of the device.
func (d *fakeDevice) put(b []byte) (*mem.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := int64(len(b))
	if d.size > 0 && d.used+n > d.size {
		return nil, fmt.Errorf("device: %d of %d bytes are in use: %w", d.used, d.size, mem.ErrOutOfMemory)
	}
	addr := d.next
	d.next += uintptr(n + 256)
	d.data[addr] = bytes.Clone(b)
	d.used += n
	d.peak = max(d.peak, d.used)
	return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: int(n), Kind: mem.Device, Free: func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.data, addr)
		d.used -= n
	}}).Buffer(), nil
}

func (d *fakeDevice) get(b *mem.Buffer) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data[b.Addr()]
}

func (d *fakeDevice) tier() *FrameTier {
	return &FrameTier{
		Down: func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) {
			if d.gate != nil {
				select {
				case <-d.gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			d.mu.Lock()
			err := d.fail
			d.mu.Unlock()
			if err != nil {
				return nil, err
			}
			return mem.FromBytes(bytes.Clone(d.get(b))), nil
		},
		Up: func(_ context.Context, b *mem.Buffer) (*mem.Buffer, error) { return d.put(b.Bytes()) },
	}
}

// value returns a result on the device.
func (d *fakeDevice) value(t interface{ Fatal(...any) }, b []byte) *task.Value {
	buf, err := d.put(b)
	if err != nil {
		t.Fatal(err)
	}
	// An array in the form of the Dask family "cuda".
	s, err := wire.EncodeValue(&wire.DeviceArray{DType: "|u1", Shape: []int{len(b)}, Frame: wire.BufferFrame(buf)},
		wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	buf.Release() // the frames hold a reference
	return task.NewEncoded(s)
}

// onDevice reads a result that must be on the device.
func (d *fakeDevice) onDevice(t interface{ Fatalf(string, ...any) }, e *Entry) []byte {
	v, err := e.Open()
	if err != nil {
		t.Fatalf("%v", err)
	}
	s, err := v.Encoded()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range s.Frames {
		if f.OnDevice() {
			return d.get(f.Buffer())
		}
	}
	t.Fatalf("%v is not on the device", e.Key())
	return nil
}

func fill(i, n int) []byte { return bytes.Repeat([]byte{byte(i)}, n) }

// settled waits until no result is being moved.
func settled(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.MakeDeviceRoom(ctx, 0); err != nil {
		t.Fatal(err)
	}
}

// books returns the bytes on the device, in memory and on disk, at one moment.
func books(s *Store) (device, memory, disk int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.used, s.memory, s.spilled.Memory
}

// eventually waits for a condition: the mover may hold a result that was deleted meanwhile.
func eventually(t interface{ Fatalf(string, ...any) }, what string, ok func() bool) {
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s", what)
			return
		}
	}
}

func (d *fakeDevice) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used == 0
}

// Three times the limit of results: the device never has more than the limit and one buffer, the others are in memory
// and on disk, and all are moved back to the device unchanged.
func TestDeviceLimit(t *testing.T) {
	const size, limit, n = 32 << 10, 8 * 32 << 10, 24
	d := newFakeDevice()
	var moves sync.Map
	s := open(t, Config{Target: 6 * size, Device: &DeviceConfig{Tier: d.tier(), Limit: limit, OnMove: func(m Move) {
		if m.NBytes != size || m.Stop.Before(m.Start) {
			t.Errorf("%+v", m)
		}
		moves.Store(m.Down, true)
	}}})
	for i := range n {
		v := d.value(t, fill(i, size))
		if err := s.MakeRoomFor(t.Context(), v, size); err != nil {
			t.Fatal(err)
		}
		s.Put(key(i), v, size)
	}
	settled(t, s)
	quiesce(t, s)
	if device, memory, disk := books(s); device > limit || device+memory+disk != n*size || disk == 0 {
		t.Errorf("%d on the device, %d in memory, %d on disk", device, memory, disk)
	}
	for round := range 2 {
		for i := range n {
			e := s.Hold(key(i))
			if got := d.onDevice(t, e); len(got) != size || got[0] != byte(i) || got[size-1] != byte(i) {
				t.Fatalf("round %d: got other bytes of %v", round, e.Key())
			}
			s.Release(e)
		}
	}
	if d.peak > limit+size {
		t.Errorf("got a peak of %d bytes on the device, want at most %d", d.peak, limit+size)
	}
	for _, down := range []bool{true, false} {
		if _, ok := moves.Load(down); !ok {
			t.Errorf("got no call of OnMove, down: %v", down)
		}
	}
	for i := range n {
		s.Delete(key(i))
	}
	eventually(t, "device memory not freed", d.empty)
	eventually(t, "counts not zero", func() bool {
		device, memory, disk := books(s)
		return device == 0 && memory == 0 && disk == 0
	})
}

// The least recently used result is moved first; a use makes a result the last; a held one is not moved.
func TestDeviceOrder(t *testing.T) {
	const size = 1000
	d := newFakeDevice()
	var mu sync.Mutex
	var order []string
	s := open(t, Config{Device: &DeviceConfig{Tier: d.tier(), Limit: 4 * size, OnMove: func(m Move) {
		mu.Lock()
		defer mu.Unlock()
		if m.Down {
			order = append(order, m.Key.String())
		}
	}}})
	put := func(i int) {
		v := d.value(t, fill(i, size))
		if err := s.MakeRoomFor(t.Context(), v, size); err != nil {
			t.Fatal(err)
		}
		s.Put(key(i), v, size)
	}
	for i := range 4 {
		put(i)
	}
	held := s.Hold(key(1))
	e := s.Hold(key(0)) // used: 2 is the oldest one now
	d.onDevice(t, e)
	s.Release(e)
	for i := 4; i < 7; i++ {
		put(i)
	}
	settled(t, s)
	mu.Lock()
	got := strings.Join(order, " ")
	mu.Unlock()
	if want := fmt.Sprint(key(2), " ", key(3), " ", key(0)); got != want {
		t.Errorf("got order %s, want %s", got, want)
	}
	if b := d.onDevice(t, held); b[0] != 1 {
		t.Errorf("held result: got %d", b[0])
	}
	s.Release(held)
}

// Host results do not count against the device, nor are they moved to it.
func TestDeviceAndHost(t *testing.T) {
	d := newFakeDevice()
	s := open(t, Config{Device: &DeviceConfig{Tier: d.tier(), Limit: 100}})
	s.Put(key(0), task.NewValue([]byte("host")), 50)
	s.Put(key(1), d.value(t, fill(1, 80)), 80)
	if s.OnDevice() != 80 || s.Memory() != 50 {
		t.Errorf("%d on the device, %d in memory", s.OnDevice(), s.Memory())
	}
	if got := get(t, s, key(0)); string(got) != "host" {
		t.Errorf("%q", got)
	}
	if err := s.MakeRoomFor(t.Context(), task.NewValue([]byte("x")), 1000); err != nil || s.OnDevice() != 80 {
		t.Errorf("room for a host value: %v, %d left", err, s.OnDevice())
	}
	// A result larger than the limit is kept while it is held, and then moved.
	s.Put(key(2), d.value(t, fill(2, 500)), 500)
	settled(t, s)
	if s.OnDevice() > 100 {
		t.Errorf("%d on the device", s.OnDevice())
	}
	e := s.Hold(key(2))
	if b := d.onDevice(t, e); len(b) != 500 {
		t.Errorf("%d bytes", len(b))
	}
	s.Release(e)
	settled(t, s)
	if s.OnDevice() > 100 {
		t.Errorf("%d on the device after its use", s.OnDevice())
	}
}

// A result that is held while its copy is made stays on the device.
func TestDeviceTakenMeanwhile(t *testing.T) {
	d := newFakeDevice()
	d.gate = make(chan struct{})
	s := open(t, Config{Device: &DeviceConfig{Tier: d.tier(), Limit: 100}})
	s.Put(key(0), d.value(t, fill(7, 80)), 80)
	s.Put(key(1), d.value(t, fill(8, 80)), 80) // the mover starts with 0 and waits at the gate
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		begun := s.entries.Get(key(0)).refs > 1
		s.mu.Unlock()
		if begun {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("timeout: mover not started")
		}
	}
	e := s.Hold(key(0))
	if b := d.onDevice(t, e); b[0] != 7 {
		t.Errorf("%v", b[:1])
	}
	close(d.gate)
	settled(t, s)
	if b := d.onDevice(t, e); b[0] != 7 || s.OnDevice() != 80 {
		t.Errorf("held: %v; %d on the device, want the other to have left", b[:1], s.OnDevice())
	}
	s.Release(e)
}

// A copy that fails leaves the result where it is, and the store logs it once.
func TestDeviceCopyFails(t *testing.T) {
	d := newFakeDevice()
	d.fail = errors.New("no pinned memory")
	s := open(t, Config{Device: &DeviceConfig{Tier: d.tier(), Limit: 100}})
	for i := range 3 {
		s.Put(key(i), d.value(t, fill(i, 80)), 80)
	}
	settled(t, s) // does not wait for the failed copy
	if s.OnDevice() != 240 || s.EvictDevice() != 0 {
		t.Errorf("%d on the device", s.OnDevice())
	}
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if s.EvictDevice() == 0 {
		t.Error("no result was moved")
	}
	for s.EvictDevice() > 0 {
	}
	eventually(t, "results still on the device", func() bool {
		device, memory, _ := books(s)
		return device == 0 && memory == 240
	})
}

// A device with other users may be full below the limit: results are moved.
func TestDeviceFull(t *testing.T) {
	d := newFakeDevice()
	d.size = 200
	s := open(t, Config{Device: &DeviceConfig{Tier: d.tier()}})
	s.Put(key(0), d.value(t, fill(1, 80)), 80)
	s.Put(key(1), d.value(t, fill(2, 80)), 80)
	if s.EvictDevice() != 80 {
		t.Fatal("no result was moved")
	}
	other := d.value(t, fill(3, 100)) // not a result of the store
	e := s.Hold(key(0))
	if b := d.onDevice(t, e); b[0] != 1 {
		t.Errorf("%v", b[:1])
	}
	if s.OnDevice() != 80 || s.Memory() != 80 {
		t.Errorf("%d on the device, %d in memory", s.OnDevice(), s.Memory())
	}
	f := s.Hold(key(1)) // no room, and all results are held
	if _, err := f.Open(); !errors.Is(err, mem.ErrOutOfMemory) ||
		!strings.Contains(err.Error(), "back to the device") {
		t.Errorf("%v", err)
	}
	s.ReleaseAll([]*Entry{e, f})
	other.Release()
	if d.used != 80 {
		t.Errorf("%d bytes in use", d.used)
	}
}

func TestDeviceConfig(t *testing.T) {
	for _, c := range []DeviceConfig{{}, {Tier: &FrameTier{}, Limit: -1}} {
		if _, err := New(Config{Device: &c}); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
	s := open(t, Config{}) // no effect without a device
	if s.OnDevice() != 0 || s.EvictDevice() != 0 || s.MakeDeviceRoom(t.Context(), 1<<40) != nil ||
		s.MakeRoomFor(t.Context(), task.NewValue(1), 8) != nil {
		t.Error("store without a device: got a result on it")
	}
	s.UnreserveDevice(1)
	d := newFakeDevice()
	d.gate = make(chan struct{})
	g := open(t, Config{Device: &DeviceConfig{Tier: d.tier(), Limit: 10}})
	g.Put(key(0), d.value(t, fill(1, 20)), 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.MakeDeviceRoom(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: got %v", err)
	}
	// Close ends the copy that waits at the gate.
}

// TestDeviceModel compares the store with a map, for random operations on host and device values. At rest no tier has
// more than its limit.
func TestDeviceModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		const size, limit = 900, 2500
		d := newFakeDevice()
		s, err := New(Config{Target: int64(rapid.IntRange(0, 2).Draw(rt, "target")) * 1000, Dir: dir, Logger: quiet(),
			Device: &DeviceConfig{Tier: d.tier(), Limit: limit}})
		if err != nil {
			rt.Fatal(err)
		}
		type result struct {
			fill   byte
			device bool
		}
		model := map[task.Key]result{}
		type holding struct {
			e *Entry
			r result
		}
		var held []holding
		check := func(h holding) {
			var got []byte
			if h.r.device {
				got = d.onDevice(rt, h.e)
			} else if v, err := h.e.Open(); err != nil {
				rt.Fatal(err)
			} else if got, err = task.As[[]byte](v); err != nil {
				rt.Fatal(err)
			}
			if len(got) != size || got[0] != h.r.fill {
				rt.Fatalf("%v: %v, want %d", h.e.Key(), got[:min(1, len(got))], h.r.fill)
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			k := key(rapid.IntRange(0, 7).Draw(rt, "key"))
			switch rapid.IntRange(0, 5).Draw(rt, "op") {
			case 0, 1:
				r := result{byte(rapid.IntRange(0, 255).Draw(rt, "byte")), rapid.Bool().Draw(rt, "device")}
				v := task.NewValue(fill(int(r.fill), size))
				if r.device {
					v = d.value(rt, fill(int(r.fill), size))
				}
				if err := s.MakeRoomFor(context.Background(), v, size); err != nil {
					rt.Fatal(err)
				}
				s.Put(k, v, size)
				model[k] = r
			case 2:
				s.Delete(k)
				delete(model, k)
			case 3:
				if e := s.Hold(k); e != nil {
					held = append(held, holding{e, model[k]})
					check(held[len(held)-1])
				} else if _, ok := model[k]; ok {
					rt.Fatalf("got no %v", k)
				}
			case 4:
				if len(held) > 0 {
					check(held[0])
					s.Release(held[0].e)
					held = held[1:]
				}
			case 5:
				s.EvictDevice()
			}
		}
		for _, h := range held {
			check(h)
			s.Release(h.e)
		}
		if err := s.MakeDeviceRoom(context.Background(), 0); err != nil {
			rt.Fatal(err)
		}
		quiesce(rt, s)
		eventually(rt, fmt.Sprintf("the books do not have the %d bytes that are there, or too many on the device",
			len(model)*size), func() bool {
			device, memory, disk := books(s)
			return device <= limit && device+memory+disk == int64(len(model)*size)
		})
		if err := s.Close(); err != nil {
			rt.Fatal(err)
		}
		if d.used != 0 {
			rt.Fatalf("got %d bytes in use on the device, want 0", d.used)
		}
	})
}

// Concurrent users: all read what was put, and the device is empty in the end.
func TestDeviceConcurrent(t *testing.T) {
	const size, keys = 4 << 10, 12
	d := newFakeDevice()
	s := open(t, Config{Target: 3 * size, Device: &DeviceConfig{Tier: d.tier(), Limit: 4 * size}})
	for i := range keys {
		s.Put(key(i), d.value(t, fill(i, size)), size)
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 60 {
				k := (g*7 + i*5) % keys
				e := s.Hold(key(k))
				if b := d.onDevice(reporter{t}, e); len(b) != size || b[0] != byte(k) {
					t.Errorf("%v has %v", e.Key(), b[:min(1, len(b))])
				}
				s.Release(e)
				if i%16 == 15 {
					s.EvictDevice()
				}
			}
		})
	}
	wg.Wait()
	for i := range keys {
		s.Delete(key(i))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if d.used != 0 {
		t.Errorf("got %d bytes in use on the device, want 0", d.used)
	}
}

// reporter is Fatalf for goroutines other than that of the test.
type reporter struct{ t *testing.T }

func (r reporter) Fatalf(format string, args ...any) { r.t.Errorf(format, args...) }

// A result on the device is published when it is put, and withdrawn before its memory is released: when it is deleted,
// replaced or moved, and when the store is closed.
func TestDevicePublish(t *testing.T) {
	d := newFakeDevice()
	var mu sync.Mutex
	published := map[string]int{}
	publish := func(key task.Key, v *task.Value) func() {
		mu.Lock()
		defer mu.Unlock()
		published[key.String()]++
		return func() {
			mu.Lock()
			defer mu.Unlock()
			published[key.String()]--
			if s, err := v.Encoded(); err != nil || d.get(s.Frames[0].Buffer()) == nil {
				t.Errorf("%v: the memory was released before the publication was withdrawn: %v", key, err)
			}
		}
	}
	s, err := New(Config{Dir: t.TempDir(), Device: &DeviceConfig{Tier: d.tier(), Publish: publish}})
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, keys ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for k, n := range published {
			if slices.Contains(keys, k) != (n == 1) || n < 0 || n > 1 {
				t.Errorf("%s: %s is published %d times, want those of %v once", when, k, n, keys)
			}
		}
	}
	put := func(key string) task.Key {
		k := task.NewKey(key)
		s.Put(k, d.value(t, []byte(key)), int64(len(key)))
		return k
	}
	a, b := put("a"), put("b")
	s.Put(task.NewKey("host"), task.NewValue("x"), 1)
	put("c")
	want("put", "a", "b", "c")
	held := s.Hold(a)
	s.Delete(a) // it stays valid for its holder
	want("deleted", "b", "c")
	s.Release(held)
	put("b")
	want("replaced", "b", "c")
	if n := s.EvictDevice(); n == 0 {
		t.Fatal("no result was moved from the device")
	}
	want("moved", "b")
	e := s.Hold(b)
	if _, err := e.Open(); err != nil {
		t.Fatal(err)
	}
	s.Release(e)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want("closed")
	s.Put(task.NewKey("late"), d.value(t, []byte("late")), 4)
	want("put after Close")
	if len(published) != 4 {
		t.Errorf("published %v, want a, b, c and late", published)
	}
}
