// Package mem is Millstream's rule for who owns memory: host memory, page-locked memory and
// the memory of GPUs, in one set of types. It is pure Go and stands on its own.
//
// # The rule
//
// A [Region] is one allocation. It is what a transport registers, once. A [Buffer] is a counted
// view of a Region: a range, its [Kind] and device, and the [Event] of its last write. Whoever
// gets a *Buffer owns one reference and releases it once:
//
//	b, err := pool.Alloc(ctx, 1<<20)
//	if err != nil {
//		return err
//	}
//	defer b.Release()
//
// To give a buffer to code that releases it later, retain it. To give a part of it,
// slice it; the slice has a reference of its own, and the two are released in any order:
//
//	go consume(b.Retain())
//	go consume(b.Slice(0, 4096))
//
// The memory goes back to where it came from with the last reference to the last view. An
// operation that uses a buffer after its call has returned holds a reference of its own, so a
// caller never needs to know when it ends.
//
// One Release too many panics. It never frees memory that another holder still uses. With the
// build tag invariants every use after release panics too, with the stack of the release;
// pools overwrite what comes back to them, and a buffer that is garbage collected without
// having been released is reported with the stack of its allocation.
//
// # Where memory comes from
//
// A [Resource] allocates. [Heap] is Go memory; its buffers need not be released. [NewMmap] gives
// host memory outside the Go heap, which a transport may register for as long
// as it lives. Package cuda has resources for device, managed and pinned memory. [FromBytes]
// and [FromSlice] wrap Go memory that exists, [NewRegion] wraps anything else.
//
// A [Pool] on top of a resource carves buffers out of large regions. Use one for all memory
// that is communicated: the first transfer of a region costs registration, up to a hundred
// milliseconds for a GPU, and all buffers of a pool share a few regions.
//
//	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 256 << 20})
//
// # Adaptors
//
// Resources stand on each other. [Limit] bounds what is out at a time, [Statistics] counts it,
// [Tracking] knows each allocation and where it was made, [OnFailure] asks what to do when
// memory runs out, [AllocLog] writes a line for each allocation and release. They are those of
// RMM. [ArrowAllocator] gives Arrow for Go memory of any of them.
//
//	limit, err := mem.NewLimit(pool, 1<<30)
//	stats, err := mem.NewStatistics(limit)
//
// # Device memory
//
// The CPU must not touch memory of kind [Device]: Bytes panics. Work on a GPU goes on after the
// call that started it, so a buffer carries the event of its last write ([Buffer.Ready]).
// Readers wait for it with [Buffer.WaitReady], or on the GPU itself. A slice starts with the
// event of the buffer it was cut from; a write through one view is not seen by others, so who
// writes parts on several streams sets the event of the whole when it hands the whole on. A
// pool keeps released memory back until the events of all its views have completed.
//
// [Pool.AllocOn] gives memory for the work of one [Stream], and hands on what that stream has
// released in the order of its work, without waiting and without a driver call. [ParseSize]
// reads sizes as users write them: "12GB", "0.8" of a device.
//
// # For transports
//
// [Region.Attach] caches a value per region and key, such as a registration, and finds it again
// without a lock. [Region.OnFree] runs before the memory is freed, to undo it:
//
//	v, err := b.Region().Attach(t, func() (any, error) {
//		reg, err := t.register(b.Region().Addr(), b.Region().Len())
//		if err == nil {
//			b.Region().OnFree(reg.Close)
//		}
//		return reg, err
//	})
//
// Go heap memory ([Region.GoHeap]) may be moved to another use by the garbage collector as soon
// as the last Go pointer to it is gone, so it is never registered for longer than an operation.
package mem
