package mem_test

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
)

func ExampleFromBytes() {
	data := []byte("hello, world")
	b := mem.FromBytes(data) // no copy
	word := b.Slice(7, 5)
	copy(word.Bytes(), "there")
	fmt.Println(string(data), b.Kind(), b.Device())
	// Output: hello, there host -1
}

func ExampleFromSlice() {
	b := mem.FromSlice([]float64{1, 2, 3})
	fmt.Println(b.Len(), "bytes")
	// Output: 24 bytes
}

func ExampleBuffer_Slice() {
	b, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 8192)
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Region().OnFree(func() { fmt.Println("freed") })
	head, tail := b.Slice(0, 4096), b.Slice(4096, 4096)
	b.Release()
	head.Release()
	fmt.Println("one view left:", tail.Len(), "bytes")
	tail.Release()
	// Output:
	// one view left: 4096 bytes
	// freed
}

func ExampleNewPool() {
	ctx := context.Background()
	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 20, MaxBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, _ := pool.Alloc(ctx, 600_000)
	b, _ := pool.Alloc(ctx, 400_000)
	fmt.Println("one region:", a.Region() == b.Region())
	_, err = pool.Alloc(ctx, 100_000)
	fmt.Println("full:", errors.Is(err, mem.ErrOutOfMemory))
	fmt.Println("busy:", errors.Is(pool.Close(), mem.ErrBusy))
	a.Release()
	b.Release()
	fmt.Println("closed:", pool.Close())
	// Output:
	// one region: true
	// full: true
	// busy: true
	// closed: <nil>
}

func ExampleRegion_Attach() {
	b, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 4096)
	if err != nil {
		fmt.Println(err)
		return
	}
	type transport struct{ name string }
	t := &transport{"shm"}
	register := func() (any, error) {
		fmt.Println("register")
		b.Region().OnFree(func() { fmt.Println("deregister") })
		return "key of " + t.name, nil
	}
	for range 3 {
		key, _ := b.Region().Attach(t, register)
		fmt.Println(key)
	}
	b.Release()
	// Output:
	// register
	// key of shm
	// key of shm
	// key of shm
	// deregister
}

func ExampleNewRegion() {
	// Memory that somebody else allocated, at an address on GPU 0.
	r := mem.NewRegion(mem.RegionConfig{
		Addr: 0x7f1200000000, Len: 4096, Kind: mem.Device, Device: 0,
		Free: func() { fmt.Println("given back") },
	})
	b := r.Buffer()
	fmt.Println(b)
	b.Release()
	// Output:
	// buffer [0:4096] of device region of 4096 bytes at 0x7f1200000000 on device 0
	// given back
}
