package rawmem

import (
	"math/bits"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// pooledFrom is the length in bytes from which blocks are kept.
const pooledFrom = 1 << 20

// pool has blocks to which no reference is left. The kernel clears new memory on first access, which takes longer than
// receiving data into it.
//
// The garbage collector decides that a block is unreferenced, so no slice of it exists when it is used again: the
// finalizer of a block adds it.
type pool struct {
	mu    sync.Mutex
	limit int64           // most bytes in free; 0: no block is kept
	held  int64           // bytes in free
	free  map[int][]block // by size, oldest first
	seq   uint64          // number of blocks so far
	taken time.Time       // when a block was last requested
}

// block is an unreferenced block.
type block struct {
	data []byte
	seq  uint64
}

// blocks is the pool of the process.
var blocks pool

// Keep sets how many bytes of unreferenced blocks this process keeps for Alloc, and returns how many bytes it has
// dropped, which the next garbage collections free. The default is 0. It is for Millstream's own processes, not for
// those of users. Any goroutine may call it.
func Keep(limit int64) (dropped int64) {
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	blocks.limit = max(limit, 0)
	return blocks.shrink(blocks.limit)
}

// Kept returns the number of bytes of unreferenced blocks, and the time since a block was last requested.
func Kept() (bytes int64, idle time.Duration) {
	blocks.mu.Lock()
	defer blocks.mu.Unlock()
	return blocks.held, time.Since(blocks.taken)
}

// Collect runs the garbage collector, and waits until it has handed over the blocks to which no reference is left: the
// next collection frees those that are not kept.
func Collect() {
	done := make(chan struct{})
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { close(done) })
	runtime.GC()
	select {
	case <-done:
	case <-time.After(time.Second): // finalizers of the program are slow
	}
}

// alloc returns n bytes, nil if blocks of this size are not kept.
func (p *pool) alloc(n int) []byte {
	if n < pooledFrom {
		return nil
	}
	b, size := p.take(n)
	if size == 0 {
		return nil
	}
	if b == nil {
		b = fresh(size)
	}
	whole := len(b)
	runtime.SetFinalizer(unsafe.SliceData(b), func(first *byte) { p.put(unsafe.Slice(first, whole)) })
	return b[:n:n]
}

// class returns the size of a block for n bytes, at most an eighth larger.
func class(n int) int {
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) &^ (step - 1)
}

// take returns a block of at least n bytes, nil if there is none, and the size that a new one should have: 0 if no
// block is kept.
func (p *pool) take(n int) (b []byte, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		return nil, 0
	}
	p.taken = time.Now()
	size = class(n)
	for at := size; at <= size+size/4; at = class(at + 1) {
		list := p.free[at]
		if len(list) == 0 {
			continue
		}
		last := len(list) - 1
		b = list[last].data
		list[last] = block{}
		p.free[at] = list[:last]
		p.held -= int64(len(b))
		checkPoison(b)
		return b, size
	}
	return nil, size
}

// put adds an unreferenced block, in place of the oldest ones if there are too many.
func (p *pool) put(b []byte) {
	poison(b) // no other goroutine has it yet
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(len(b)) > p.limit {
		return
	}
	p.shrink(p.limit - int64(len(b)))
	if p.free == nil {
		p.free = map[int][]block{}
	}
	p.seq++
	p.free[len(b)] = append(p.free[len(b)], block{b, p.seq})
	p.held += int64(len(b))
}

// shrink drops the oldest blocks until there are at most limit bytes. The caller holds mu.
func (p *pool) shrink(limit int64) (dropped int64) {
	for p.held > limit {
		oldest, seq := 0, uint64(0)
		for size, list := range p.free {
			if len(list) > 0 && (oldest == 0 || list[0].seq < seq) {
				oldest, seq = size, list[0].seq
			}
		}
		list := p.free[oldest]
		list[0] = block{}
		if p.free[oldest] = list[1:]; len(list) == 1 {
			delete(p.free, oldest)
		}
		p.held -= int64(oldest)
		dropped += int64(oldest)
	}
	return dropped
}
