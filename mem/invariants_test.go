//go:build invariants

package mem

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func releaseHere(b *Buffer) { b.Release() }

func panicText(f func()) (msg string) {
	defer func() {
		if r := recover(); r != nil {
			msg = r.(string)
		}
	}()
	f()
	return ""
}

func TestInvariantsNameTheFirstRelease(t *testing.T) {
	for name, f := range map[string]func(*Buffer){
		"Release": (*Buffer).Release,
		"Retain":  func(b *Buffer) { b.Retain() },
		"Slice":   func(b *Buffer) { b.Slice(0, 1) },
		"Bytes":   func(b *Buffer) { b.Bytes() },
		"Addr":    func(b *Buffer) { b.Addr() },
		"Len":     func(b *Buffer) { b.Len() },
		"Kind":    func(b *Buffer) { b.Kind() },
		"Device":  func(b *Buffer) { b.Device() },
		"Region":  func(b *Buffer) { b.Region() },
		"Ready":   func(b *Buffer) { b.Ready() },
		"SetReady": func(b *Buffer) {
			b.SetReady(nil)
		},
		"ReadOnly": func(b *Buffer) { b.ReadOnly() },
	} {
		b := FromBytes(make([]byte, 8))
		keep := b.Slice(0, 8) // the memory lives on; the view is dead all the same
		releaseHere(b)
		msg := panicText(func() { f(b) })
		if !strings.Contains(msg, "mem: "+name+" of a released") || !strings.Contains(msg, "releaseHere") {
			t.Errorf("%s after release: %q", name, msg)
		}
		keep.Release()
	}
}

func TestInvariantsPoison(t *testing.T) {
	p, err := NewPool(NewMmap(MmapConfig{}), PoolConfig{SlabBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Alloc(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	stale := b.Bytes()
	stale[99] = 1
	b.Release()
	if stale[0] != 0xdb || stale[99] != 0xdb {
		t.Errorf("stale memory reads %x", stale[99])
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestInvariantsReportLeaks(t *testing.T) {
	var mu sync.Mutex
	var got []string
	f := func(msg string) {
		if !strings.Contains(msg, "TestInvariantsReportLeaks") {
			return // of a test that ran before: the collector finds it now
		}
		mu.Lock()
		got = append(got, msg)
		mu.Unlock()
	}
	leakReport.Store(&f)
	defer leakReport.Store(nil)
	p, err := NewPool(Heap, PoolConfig{SlabBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	lose := func() {
		if _, err := p.Alloc(t.Context(), 123); err != nil {
			t.Error(err)
		}
		b, err := p.Alloc(t.Context(), 77)
		if err != nil {
			t.Error(err)
		}
		b.Release()
	}
	lose()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		mu.Lock()
		n := len(got)
		mu.Unlock()
		if n > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no leak reported")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 1 || !strings.Contains(got[0], "never released") || !strings.Contains(got[0], "invariants_test.go") {
		t.Errorf("got reports %q, want one of the buffer that was lost here", got)
	}
	runtime.KeepAlive(p)
}
