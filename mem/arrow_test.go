package mem_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/mem"
)

var _ memory.Allocator = (*mem.ArrowAllocator)(nil)

// Arrow builds an array in memory of a pool, and gives all of it back.
func TestArrowAllocator(t *testing.T) {
	for name, r := range map[string]mem.Resource{"pool": newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}),
		"mmap": mem.NewMmap(mem.MmapConfig{}), "heap": mem.Heap} {
		t.Run(name, func(t *testing.T) {
			alloc := must(mem.NewArrowAllocator(r))
			checked := memory.NewCheckedAllocator(alloc)
			builder := array.NewInt64Builder(checked)
			for i := range 10000 {
				builder.Append(int64(i))
			}
			a := builder.NewInt64Array()
			builder.Release()
			for i, v := range a.Int64Values() {
				if v != int64(i) {
					t.Fatalf("element %d is %d", i, v)
				}
			}
			raw := a.Data().Buffers()[1].Buf()
			b, ok := alloc.Buffer(raw)
			if !ok || !bytes.Equal(b.Bytes()[:len(raw)], raw) || b.Addr()%64 != 0 {
				t.Errorf("the buffer behind Arrow's bytes: %v %v", b, ok)
			}
			b.Release()
			a.Release()
			checked.AssertSize(t, 0)
			if alloc.Outstanding() != 0 {
				t.Errorf("%d allocations are out", alloc.Outstanding())
			}
		})
	}
}

func TestArrowReallocate(t *testing.T) {
	alloc := must(mem.NewArrowAllocator(newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})))
	b := alloc.Allocate(0)
	b = alloc.Reallocate(3, b)
	copy(b, "abc")
	b = alloc.Reallocate(100, b)
	if string(b[:3]) != "abc" || bytes.ContainsFunc(b[3:], func(r rune) bool { return r != 0 }) {
		t.Errorf("grown to %q", b)
	}
	same := alloc.Reallocate(100, b)
	if &same[0] != &b[0] {
		t.Error("the same size moved")
	}
	b = alloc.Reallocate(2, same)
	if string(b) != "ab" {
		t.Errorf("shrunk to %q", b)
	}
	b = alloc.Reallocate(0, b)
	alloc.Free(b)
	alloc.Free(alloc.Reallocate(5, nil))
	if alloc.Outstanding() != 0 {
		t.Errorf("%d are out", alloc.Outstanding())
	}
	for what, f := range map[string]func(){
		"not allocated": func() { alloc.Free(make([]byte, 5)) },
		"negative size": func() { alloc.Allocate(-1) },
		"out of memory": func() { must(mem.NewArrowAllocator(must(mem.NewLimit(mem.Heap, 256)))).Allocate(500) },
	} {
		func() {
			defer func() {
				r := recover()
				text := ""
				switch v := r.(type) {
				case error:
					text = v.Error()
				case string:
					text = v
				}
				if !strings.Contains(text, what) {
					t.Errorf("%s: panic %v", what, r)
				}
				if err, ok := r.(error); ok && what == "out of memory" && !errors.Is(err, mem.ErrOutOfMemory) {
					t.Errorf("%v is not ErrOutOfMemory", err)
				}
			}()
			f()
		}()
	}
}

// deviceOnly is a resource of memory that the CPU cannot touch.
type deviceOnly struct{ mem.Resource }

func (deviceOnly) Kind() mem.Kind { return mem.Device }

func TestArrowDevice(t *testing.T) {
	if _, err := mem.NewArrowAllocator(deviceOnly{mem.Heap}); err == nil ||
		!strings.Contains(err.Error(), "pinned or managed") {
		t.Errorf("device memory for Arrow: %v", err)
	}
}
