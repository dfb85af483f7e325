package rawmem

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// collect collects garbage until a pool has at least n bytes.
func collect(t *testing.T, p *pool, n int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		p.mu.Lock()
		got := p.held
		p.mu.Unlock()
		if got >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the pool has %d bytes after a minute, want %d", got, n)
		}
	}
}

// address returns the address of a new block, which is unreferenced on return.
//
//go:noinline
func address(p *pool, n int) uintptr {
	b := p.alloc(n)
	b[0], b[n-1] = 1, 2
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

func TestReuse(t *testing.T) {
	p := &pool{limit: 64 << 20}
	const n = 3<<20 + 5
	first := address(p, n)
	collect(t, p, n)
	b := p.alloc(n - 1000) // same class
	if got := uintptr(unsafe.Pointer(unsafe.SliceData(b))); got != first {
		t.Errorf("block at %#x, want the unreferenced one at %#x", got, first)
	}
	if len(b) != n-1000 || cap(b) != len(b) {
		t.Errorf("got %d of %d bytes, want %d", len(b), cap(b), n-1000)
	}
	if p.held != 0 || p.taken.IsZero() {
		t.Errorf("the pool has %d bytes, last used %v; want 0 and a recent use", p.held, p.taken)
	}
	runtime.KeepAlive(b)
}

// A block with a reference to any byte of it is not used again.
func TestReferenced(t *testing.T) {
	p := &pool{limit: 64 << 20}
	const n = 2 << 20
	part := p.alloc(n)[n/2 : n/2+1]
	part[0] = 7
	address(p, n)
	collect(t, p, n) // the second block
	for range 3 {
		runtime.GC()
	}
	b, c := p.alloc(n), p.alloc(n)
	for _, b := range [][]byte{b, c} {
		for i := range b {
			b[i] = 1
		}
	}
	if part[0] != 7 {
		t.Errorf("the byte in use is %d, want 7", part[0])
	}
	runtime.KeepAlive(part)
}

// The pool of the process is used by Alloc while blocks are kept.
func TestKeep(t *testing.T) {
	Keep(64 << 20)
	defer Keep(0)
	b := Alloc(2<<20 + 1)
	if _, idle := Kept(); idle > time.Hour {
		t.Errorf("idle for %v after a use", idle)
	}
	if len(b) != 2<<20+1 {
		t.Errorf("got %d bytes, want 2 MiB and one", len(b))
	}
	blocks.put(make([]byte, 4<<20))
	if held, _ := Kept(); held < 4<<20 {
		t.Errorf("the pool has %d bytes, want at least 4 MiB", held)
	}
	if n := Keep(0); n < 4<<20 {
		t.Errorf("dropped %d bytes, want at least 4 MiB", n)
	}
	if held, _ := Kept(); held != 0 {
		t.Errorf("the pool has %d bytes, want 0", held)
	}
}

// Without a limit nothing is kept, nor are small blocks.
func TestNotKept(t *testing.T) {
	if b := new(pool).alloc(pooledFrom); b != nil {
		t.Errorf("got %d bytes of a pool that keeps none", len(b))
	}
	p := &pool{limit: 64 << 20}
	if b := p.alloc(pooledFrom - 1); b != nil {
		t.Errorf("got a block of %d bytes, want none below %d", len(b), pooledFrom)
	}
}

func TestPoolLimit(t *testing.T) {
	p := &pool{limit: 10 << 20}
	for i := range 6 {
		p.put(make([]byte, (2+i%2)<<20)) // 2, 3, 2, 3, 2, 3 MiB
	}
	if p.held != 10<<20 {
		t.Errorf("the pool has %d bytes, want 10 MiB", p.held)
	}
	p.put(make([]byte, 11<<20)) // does not fit
	if n := len(p.free[2<<20]); n != 2 || len(p.free[3<<20]) != 2 {
		t.Errorf("%d and %d blocks, want the two newest of each size", n, len(p.free[3<<20]))
	}
	if b, _ := p.take(4 << 20); b != nil {
		t.Errorf("got %d bytes for 4 MiB, want none", len(b))
	}
	if b, _ := p.take(2<<20 + 300<<10); len(b) != 3<<20 { // at most a quarter larger than its class
		t.Errorf("got %d bytes, want the block of 3 MiB", len(b))
	}
	if got := p.shrink(5 << 20); got != 2<<20 {
		t.Errorf("dropped %d bytes, want the oldest block, of 2 MiB", got)
	}
	if p.shrink(0); p.held != 0 || len(p.free) != 0 {
		t.Errorf("%d bytes in %d lists, want none", p.held, len(p.free))
	}
}

func TestClass(t *testing.T) {
	for n := pooledFrom; n < 1<<33; n += n/7 + 1 {
		got := class(n)
		if got < n || got-n > n/8 || class(got) != got {
			t.Fatalf("class(%d) = %d, and its class %d; want at most an eighth more", n, got, class(got))
		}
	}
}
