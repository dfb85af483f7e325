package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// Guards around every buffer: a length that leaves the buffer itself at an odd address, and one that is
// longer than any rounding of a copy.
const (
	guardBefore = 257
	guardAfter  = 4096
)

// pattern is n bytes that follow from a seed alone, so that both processes know them.
func pattern(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// block is a buffer between guards. All its bytes are written and read by the driver, never by UCX.
type block struct {
	whole, inner *mem.Buffer
	guard        uint64 // seed of the guards' bytes
}

// newBlock allocates n bytes. Their content is not defined.
func newBlock(ctx context.Context, r mem.Resource, n int) (*block, error) {
	whole, err := r.Alloc(ctx, guardBefore+n+guardAfter)
	if err != nil {
		return nil, err
	}
	if err := whole.WaitReady(ctx); err != nil {
		return nil, err
	}
	b := &block{whole: whole, inner: whole.Slice(guardBefore, n), guard: seed()}
	return b, b.write(ctx, make([]byte, n))
}

// write sets the content, and the guards anew.
func (b *block) write(ctx context.Context, content []byte) error {
	host := pattern(b.guard, b.whole.Len())
	copy(host[guardBefore:], content)
	return cuda.CopyFromHost(ctx, b.whole, host)
}

// fill sets the content to the pattern of a seed.
func (b *block) fill(ctx context.Context, seed uint64) error {
	return b.write(ctx, pattern(seed, b.inner.Len()))
}

// check compares content and guards with what they must be.
func (b *block) check(ctx context.Context, seed uint64) error {
	return b.compare(ctx, pattern(seed, b.inner.Len()))
}

func (b *block) compare(ctx context.Context, content []byte) error {
	host := make([]byte, b.whole.Len())
	if err := cuda.CopyToHost(ctx, host, b.whole); err != nil {
		return err
	}
	want := pattern(b.guard, len(host))
	copy(want[guardBefore:], content)
	if bytes.Equal(host, want) {
		return nil
	}
	i := 0
	for host[i] == want[i] {
		i++
	}
	last := len(host) - 1
	for host[last] == want[last] {
		last--
	}
	return fmt.Errorf("%s: bytes %d to %d of %d differ (negative or beyond: a guard); the first is %#x, want %#x",
		b.inner.Kind(), i-guardBefore, last-guardBefore, b.inner.Len(), host[i], want[i])
}

func (b *block) view() ucx.View { return ucx.Buffer(b.inner) }

func (b *block) release() {
	b.inner.Release()
	b.whole.Release()
}

// testBlock is newBlock for tests.
func testBlock(t testing.TB, ctx context.Context, kind string, n int) *block {
	t.Helper()
	r, err := resource(kind)
	must(t, err)
	b, err := newBlock(ctx, r, n)
	must(t, err)
	return b
}

// guarded is a resource whose buffers lie between guards. It stands where the library allocates.
type guarded struct {
	from mem.Resource

	mu     sync.Mutex
	blocks []*block
}

func (g *guarded) Kind() mem.Kind { return g.from.Kind() }
func (g *guarded) Device() int    { return g.from.Device() }

func (g *guarded) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	b, err := newBlock(ctx, g.from, n)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocks = append(g.blocks, b)
	return b.inner.Retain(), nil
}

// find returns the block of a buffer that Alloc gave out.
func (g *guarded) find(b *mem.Buffer) *block {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.blocks {
		if k.inner == b {
			return k
		}
	}
	return nil
}

func (g *guarded) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.blocks {
		b.release()
	}
	g.blocks = nil
}

// checkFrame compares a received buffer, with its guards where it has some.
func (g *guarded) checkFrame(ctx context.Context, b *mem.Buffer, seed uint64) error {
	if k := g.find(b); k != nil {
		return k.check(ctx, seed)
	}
	host := make([]byte, b.Len())
	if err := cuda.CopyToHost(ctx, host, b); err != nil {
		return err
	}
	if !bytes.Equal(host, pattern(seed, b.Len())) {
		return fmt.Errorf("a frame of %d bytes of %s memory has other bytes than were sent", b.Len(), b.Kind())
	}
	return nil
}

// compareGuards checks the guards where the content is not defined.
func (b *block) compareGuards(ctx context.Context) error {
	content := make([]byte, b.inner.Len())
	if err := cuda.CopyToHost(ctx, content, b.inner); err != nil {
		return err
	}
	return b.compare(ctx, content)
}

// read returns the content.
func (b *block) read(t testing.TB, ctx context.Context) []byte {
	t.Helper()
	content := make([]byte, b.inner.Len())
	must(t, cuda.CopyToHost(ctx, content, b.inner))
	return content
}
