package mem_test

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"go.millstream.dev/mem"
)

// mustPanic runs f and checks that it panics with a message that contains want.
func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		r := recover()
		if r == nil {
			t.Errorf("no panic, want one that says %q", want)
			return
		}
		if s, _ := r.(string); !strings.Contains(s, want) {
			t.Errorf("panic %v, want %q", r, want)
		}
	}()
	f()
}

// deviceRegion is memory that the CPU must not touch: no test here ever dereferences it.
func deviceRegion(free func()) *mem.Region {
	return mem.NewRegion(mem.RegionConfig{Addr: 0x7f0000000000, Len: 4096, Kind: mem.Device, Device: 3, Free: free})
}

func TestKind(t *testing.T) {
	for _, c := range []struct {
		k    mem.Kind
		name string
		host bool
	}{
		{mem.Host, "host", true}, {mem.Pinned, "pinned", true},
		{mem.Device, "device", false}, {mem.Managed, "managed", true}, {mem.Kind(9), "Kind(9)", false},
	} {
		if c.k.String() != c.name || c.k.HostAccessible() != c.host {
			t.Errorf("%v: host accessible %v", c.k, c.k.HostAccessible())
		}
	}
}

func TestRegionFields(t *testing.T) {
	r := deviceRegion(nil)
	if r.Addr() != 0x7f0000000000 || r.Len() != 4096 || r.Kind() != mem.Device || r.Device() != 3 ||
		r.GoHeap() {
		t.Errorf("%v", r)
	}
	if s := r.String(); s != "device region of 4096 bytes at 0x7f0000000000 on device 3" {
		t.Error(s)
	}
	r.Buffer().Release()

	b := []byte("hello")
	h := mem.NewRegion(mem.RegionConfig{Heap: b, ReadOnly: true})
	if h.Addr() != uintptr(unsafe.Pointer(&b[0])) || h.Len() != 5 || h.Device() != -1 || !h.GoHeap() {
		t.Errorf("%v", h)
	}
	if v := h.Buffer(); !v.ReadOnly() || &v.Bytes()[0] != &b[0] {
		t.Error("the view of heap memory is not that memory")
	}
}

func TestRegionRefusesNonsense(t *testing.T) {
	mustPanic(t, "negative length", func() { mem.NewRegion(mem.RegionConfig{Addr: 1, Len: -1}) })
	mustPanic(t, "nil address", func() { mem.NewRegion(mem.RegionConfig{Len: 1}) })
	mustPanic(t, "kind host", func() { mem.NewRegion(mem.RegionConfig{Heap: []byte{1}, Kind: mem.Device}) })
}

func TestRegionFreesOnceInOrder(t *testing.T) {
	var log []string
	say := func(s string) func() { return func() { log = append(log, s) } }
	regions, bytes := mem.Live()
	r := deviceRegion(say("free"))
	if n, b := mem.Live(); n != regions+1 || b != bytes+4096 {
		t.Errorf("Live: %d regions, %d bytes more", n-regions, b-bytes)
	}
	b := r.Buffer()
	again := r.Buffer()
	s := b.Slice(1, 2)
	r.OnFree(say("first"))
	stop := r.OnFree(say("stopped"))
	r.OnFree(say("second"))
	if !stop() || stop() {
		t.Error("stop must report true once")
	}
	b.Release()
	again.Release()
	if log != nil {
		t.Fatalf("freed while a slice is alive: %v", log)
	}
	s.Release()
	if want := []string{"second", "first", "free"}; !slices.Equal(log, want) {
		t.Errorf("got %v, want %v", log, want)
	}
	if n, b := mem.Live(); n != regions || b != bytes {
		t.Errorf("Live after free: %d regions, %d bytes", n-regions, b-bytes)
	}
	mustPanic(t, "OnFree on a freed", func() { r.OnFree(func() {}) })
	mustPanic(t, "retain of a freed", func() { r.Buffer() })
}

func TestFreeAfterGetsPendingEvents(t *testing.T) {
	var got []mem.Event
	r := mem.NewRegion(mem.RegionConfig{
		Addr: 4096, Len: 10, Kind: mem.Device,
		Free:      func() { t.Error("Free called beside FreeAfter") },
		FreeAfter: func(e []mem.Event) { got = e },
	})
	b := r.Buffer()
	s := b.Slice(0, 5)
	e1, e2 := new(manualEvent), new(manualEvent)
	b.SetReady(e1)
	s.SetReady(e2)
	s.Release()
	b.Release()
	if want := []mem.Event{e2, e1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
