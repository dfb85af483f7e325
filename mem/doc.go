// Package mem defines the ownership of memory in Millstream: host memory, page-locked memory and GPU memory, in one set
// of types. It is pure Go and independent of the other packages.
//
// # Ownership
//
// A [Region] is one allocation, which a transport registers once. A [Buffer] is a reference-counted view of a Region: a
// range, its [Kind] and device, and the [Event] of its last write. A caller that gets a *Buffer owns one reference and
// releases it once:
//
//	b, err := pool.Alloc(ctx, 1<<20)
//	if err != nil {
//		return err
//	}
//	defer b.Release()
//
// To pass a buffer to code that releases it later, retain it. To pass a part of it, slice it; the slice has its own
// reference, and the two are released in any order:
//
//	go consume(b.Retain())
//	go consume(b.Slice(0, 4096))
//
// The memory is freed with the last reference to the last view. An operation that uses a buffer after its call has
// returned holds its own reference, so a caller need not know when it ends.
//
// Releasing too often panics. It never frees memory that another holder still uses. With the build tag invariants every
// use after release panics too, with the stack of the release; pools overwrite released memory, and a buffer that is
// garbage collected without having been released is reported with the stack of its allocation.
//
// # Resources
//
// A [Resource] allocates memory. [Heap] allocates Go memory; its buffers need not be released. [NewMmap] allocates host
// memory outside the Go heap, which a transport may register for its whole lifetime. Package cuda has resources for
// device, managed and pinned memory. [FromBytes] and [FromSlice] wrap existing Go memory, [NewRegion] wraps any other
// memory.
//
// A [Pool] on top of a resource allocates buffers within large regions. Use one for all memory that is communicated:
// the first transfer of a region costs registration, up to a hundred milliseconds for a GPU, and all buffers of a pool
// share a few regions.
//
//	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 256 << 20})
//
// # Adaptors
//
// Resources can be stacked. [NewLimit] bounds the bytes in use, [Statistics] counts them, [Tracking] records each
// allocation and its stack, [NewOnFailure] calls a function when memory runs out, [AllocLog] writes a line for each
// allocation and release. They correspond to RMM's adaptors. [ArrowAllocator] allocates memory for Arrow for Go from
// any of them.
//
//	limit, err := mem.NewLimit(pool, 1<<30)
//	stats, err := mem.NewStatistics(limit)
//
// # Device memory
//
// The CPU must not access memory of kind [Device]: Bytes panics. Work on a GPU continues after the call that started
// it, so a buffer carries the event of its last write ([Buffer.Ready]). Readers wait for it with [Buffer.WaitReady], or
// on the GPU itself. A slice starts with the event of the buffer it was cut from; a write through one view does not
// affect others, so a writer of parts on several streams sets the event of the whole before passing it on. A pool does
// not reuse released memory until the events of all its views have completed.
//
// [Pool.AllocOn] allocates memory for the work of one [Stream], and reuses memory that the stream has released in the
// order of its work, without waiting and without a driver call. [ParseSize] parses sizes such as "12GB" or "0.8" of a
// device.
//
// # For transports
//
// [Region.Attach] caches a value per region and key, such as a registration, and finds it again without a lock.
// [Region.OnFree] runs before the memory is freed, to undo it:
//
//	v, err := b.Region().Attach(t, func() (any, error) {
//		reg, err := t.register(b.Region().Addr(), b.Region().Len())
//		if err == nil {
//			b.Region().OnFree(reg.Close)
//		}
//		return reg, err
//	})
//
// Go heap memory ([Region.GoHeap]) may be reused by the garbage collector as soon as the last Go pointer to it is gone,
// so it must not be registered for longer than an operation.
package mem
