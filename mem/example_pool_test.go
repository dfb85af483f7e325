package mem_test

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
)

// A pool keeps what was released; Trim gives unused regions back to its resource.
func ExamplePool_Trim() {
	ctx := context.Background()
	pool := value(mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 20}))
	defer pool.Close()
	b := value(pool.AllocOn(ctx, 1000, nil)) // nil: in the order of no stream
	fmt.Println(pool.Stats().Outstanding, pool.Stats().Reserved, pool.Kind(), pool.Device())
	b.Release()
	fmt.Println(pool.Trim(), pool.Stats().Reserved)
	// Output:
	// 1 1048576 host -1
	// 1048576 0
}

// AllocOn allocates in the order of a stream from resources that know streams, and plainly from others.
func ExampleAllocOn() {
	var stream mem.Stream // such as a *cuda.Stream
	b := value(mem.AllocOn(context.Background(), mem.Heap, 100, stream))
	fmt.Println(b.Len())
	// Output: 100
}

// Sizes as users write them.
func ExampleParseSize() {
	const device = 80 << 30
	for _, text := range []string{"1.5GiB", "0.5", "none"} {
		s := value(mem.ParseSize(text))
		fmt.Println(s.IsSet(), s, value(s.Of(device)))
	}
	fmt.Println(mem.SizeBytes(1<<20), "and", mem.SizeFraction(0.8))
	// Output:
	// true 1610612736 bytes 1610612736
	// true 0.5 of the device 42949672960
	// false not set 0
	// 1048576 bytes and 0.8 of the device
}

// Arrow's arrays in memory that a transport has registered.
func ExampleArrowAllocator() {
	pool := value(mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}))
	defer pool.Close()
	alloc := value(mem.NewArrowAllocator(pool)) // for array.NewInt64Builder and others
	b := alloc.Allocate(100)
	b = alloc.Reallocate(200, b)
	buf, ok := alloc.Buffer(b) // to send the bytes without a copy
	fmt.Println(len(b), ok, buf.Kind(), alloc.Outstanding())
	buf.Release()
	alloc.Free(b)
	fmt.Println(alloc.Outstanding())
	// Output:
	// 200 true host 1
	// 0
}
