package mem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/mem"
)

// value returns what a call returned, and ends the example when the call failed.
func value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// At most 4 KiB are handed out at a time.
func ExampleNewLimit() {
	ctx := context.Background()
	r := value(mem.NewLimit(mem.Heap, 4096))
	b := value(r.Alloc(ctx, 4000))
	_, err := r.Alloc(ctx, 200)
	fmt.Println(errors.Is(err, mem.ErrOutOfMemory))
	b.Release()
	fmt.Println(value(r.Alloc(ctx, 200)).Len())
	// Output:
	// true
	// 200
}

// An allocation that fails is tried again after something was freed.
func ExampleNewOnFailure() {
	ctx := context.Background()
	limit := value(mem.NewLimit(mem.Heap, 4096))
	cached := value(limit.Alloc(ctx, 4000))
	r := value(mem.NewOnFailure(limit, func(_ context.Context, n int, err error) bool {
		if cached == nil {
			return false // nothing to free
		}
		fmt.Println("freeing the cache for", n, "bytes")
		cached.Release()
		cached = nil
		return true
	}))
	fmt.Println(value(r.Alloc(ctx, 1000)).Len())
	// Output:
	// freeing the cache for 1000 bytes
	// 1000
}

// Counts of a whole program, and of a part of it.
func ExampleStatistics() {
	ctx := context.Background()
	s := value(mem.NewStatistics(mem.Heap))
	a := value(s.Alloc(ctx, 100))
	s.Push()
	value(s.AllocOn(ctx, 10, nil)).Release() // nil: in the order of no stream
	part := s.Pop()
	fmt.Println(part.TotalBytes, part.Bytes)
	a.Release()
	all := s.Counters()
	fmt.Println(all.TotalBytes, all.PeakBytes, all.Bytes, s.Kind(), s.Device())
	// Output:
	// 10 0
	// 110 110 0 host -1
}

// Buffers that were not released, with the stacks of their allocations.
func ExampleTracking() {
	ctx := context.Background()
	t := value(mem.NewTracking(mem.Heap, mem.TrackingConfig{Stacks: true}))
	kept := value(t.Alloc(ctx, 64))
	value(t.AllocOn(ctx, 32, nil)).Release()
	for _, a := range t.Outstanding() {
		fmt.Println(a.Bytes, "bytes")
	}
	fmt.Println(strings.Contains(t.Report(), "ExampleTracking"))
	kept.Release()
	fmt.Println(len(t.Outstanding()))
	// Output:
	// 64 bytes
	// true
	// 0
}

// A line for each allocation, as RMM writes them.
func ExampleAllocLog() {
	ctx := context.Background()
	var text strings.Builder
	l := value(mem.NewAllocLog(mem.Heap, &text, mem.AllocLogConfig{}))
	value(l.Alloc(ctx, 64)).Release()
	value(l.AllocOn(ctx, 32, nil)).Release()
	if err := l.Flush(); err != nil {
		fmt.Println(err)
	}
	head, lines, _ := strings.Cut(text.String(), "\n")
	fmt.Println(head)
	fmt.Println(strings.Count(lines, ",allocate,"), strings.Count(lines, ",free,"))
	// Output:
	// Thread,Time,Action,Pointer,Size,Stream
	// 2 2
}
