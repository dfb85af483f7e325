package mem_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"

	"go.millstream.dev/mem"
)

func TestResources(t *testing.T) {
	for _, c := range []struct {
		name string
		r    mem.Resource
		kind mem.Kind
		heap bool
	}{
		{"heap", mem.Heap, mem.Host, true},
		{"mmap", mem.NewMmap(mem.MmapConfig{}), mem.Host, false},
		{"mmap huge populated", mem.NewMmap(mem.MmapConfig{Populate: true, HugePages: true}), mem.Host, false},
		{"mlocked", mem.NewMmap(mem.MmapConfig{Lock: true}), mem.Pinned, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			regions, _ := mem.Live()
			if c.r.Kind() != c.kind || c.r.Device() != -1 {
				t.Errorf("kind %v device %d", c.r.Kind(), c.r.Device())
			}
			for _, n := range []int{0, 1, 4095, 4096, 4097, 40000} {
				b := alloc(t, c.r, n)
				if b.Kind() != c.kind || b.Device() != -1 || b.ReadOnly() || b.Region().GoHeap() != c.heap {
					t.Errorf("%v", b)
				}
				if !c.heap && b.Addr()%uintptr(syscall.Getpagesize()) != 0 {
					t.Errorf("%#x is not page aligned", b.Addr())
				}
				for i, x := range b.Bytes() {
					if x != 0 {
						t.Fatalf("byte %d is %d: memory of another life", i, x)
					}
				}
				for i := range b.Bytes() {
					b.Bytes()[i] = byte(i)
				}
				b.Release()
			}
			if _, err := c.r.Alloc(t.Context(), -1); err == nil || !strings.Contains(err.Error(), "negative size -1") {
				t.Errorf("negative size: %v", err)
			}
			if _, err := c.r.Alloc(t.Context(), math.MaxInt); !errors.Is(err, mem.ErrOutOfMemory) {
				t.Errorf("all of the address space: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.r.Alloc(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled context: %v", err)
			}
			if n, _ := mem.Live(); n != regions {
				t.Errorf("%d regions left", n-regions)
			}
		})
	}
}

func TestMmapGivesMemoryBack(t *testing.T) {
	b := alloc(t, mem.NewMmap(mem.MmapConfig{Populate: true}), 1<<20)
	addr := b.Addr()
	if !mapped(addr) {
		t.Fatal("mincore does not know a live mapping")
	}
	b.Release()
	if mapped(addr) {
		t.Error("still mapped after the last release")
	}
}

// mapped asks the kernel whether a page is mapped, without touching it.
func mapped(addr uintptr) bool {
	_, _, e := syscall.RawSyscall(syscall.SYS_MADVISE, addr, uintptr(syscall.Getpagesize()), syscall.MADV_NORMAL)
	return e == 0
}

func TestMlockedNamesTheLimit(t *testing.T) {
	const memlock = 8 // RLIMIT_MEMLOCK
	var old syscall.Rlimit
	if err := syscall.Getrlimit(memlock, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 64 << 10
	if err := syscall.Setrlimit(memlock, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(memlock, &old); err != nil {
			t.Error(err)
		}
	}()
	b, err := mem.NewMmap(mem.MmapConfig{Lock: true}).Alloc(t.Context(), 1<<20)
	if err == nil { // CAP_IPC_LOCK lifts the limit
		b.Release()
		return
	}
	if !errors.Is(err, mem.ErrOutOfMemory) || !strings.Contains(err.Error(), "ulimit -l") ||
		!strings.Contains(err.Error(), "65536") {
		t.Error(err)
	}
}

func TestFromSlice(t *testing.T) {
	f := []float64{1, math.Pi}
	b := mem.FromSlice(f)
	if b.Len() != 16 || math.Float64frombits(binary.NativeEndian.Uint64(b.Bytes()[8:])) != math.Pi {
		t.Errorf("%x", b.Bytes())
	}
	binary.NativeEndian.PutUint64(b.Bytes(), math.Float64bits(2))
	if f[0] != 2 {
		t.Error("FromSlice copied")
	}
	type celsius float32
	if b := mem.FromSlice([]celsius{1}); b.Len() != 4 {
		t.Errorf("%v", b)
	}
	if b := mem.FromSlice[int](nil); b.Len() != 0 || b.Bytes() == nil {
		t.Errorf("%v", b)
	}
	if b := mem.FromBytes(nil); b.Len() != 0 || !b.Region().GoHeap() {
		t.Errorf("%v", b)
	}
}
