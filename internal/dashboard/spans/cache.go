package spans

import (
	"container/list"
	"sync"
)

// tileKey identifies a tile.
type tileKey struct {
	level, index int64
	rows         Range
	group        int
}

// times returns the begin and the end of the tile.
func (k tileKey) times() (from, to int64) {
	width := int64(TileBuckets) << k.level
	return k.index * width, (k.index + 1) * width
}

// maxTiles bounds the bytes of cached tiles.
const maxTiles = 32 << 20

// tileCache keeps the tiles that were asked for last. Callers that ask for the same tile at the same time wait for one
// computation.
type tileCache struct {
	mu    sync.Mutex
	tiles map[tileKey]*tile
	order list.List // of *tile, that used last first
	bytes int
}

type tile struct {
	key   tileKey
	ready chan struct{}
	data  []byte
	in    *list.Element // nil if not in the cache, or not any more
}

func (c *tileCache) init() { c.tiles = make(map[tileKey]*tile) }

// get returns a tile from the cache, or computes it.
func (c *tileCache) get(k tileKey, compute func(tileKey) []byte) []byte {
	c.mu.Lock()
	t, ok := c.tiles[k]
	if ok {
		c.order.MoveToFront(t.in)
		c.mu.Unlock()
		<-t.ready
		return t.data
	}
	t = &tile{key: k, ready: make(chan struct{})}
	t.in = c.order.PushFront(t)
	c.tiles[k] = t
	c.mu.Unlock()

	data := compute(k)

	c.mu.Lock()
	defer c.mu.Unlock()
	t.data = data
	close(t.ready)
	if t.in == nil {
		return data // invalidated meanwhile
	}
	c.bytes += len(data)
	for c.bytes > maxTiles && c.order.Len() > 1 {
		c.remove(c.order.Back().Value.(*tile))
	}
	return data
}

// remove removes a tile; c.mu is held.
func (c *tileCache) remove(t *tile) {
	c.order.Remove(t.in)
	t.in = nil
	delete(c.tiles, t.key)
	select {
	case <-t.ready:
		c.bytes -= len(t.data)
	default:
	}
}

// invalidate removes the tiles that overlap [from, to). The caller has changed the spans and holds Store.mu, so that
// no tile is being computed.
func (c *tileCache) invalidate(from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; {
		t := e.Value.(*tile)
		e = e.Next()
		if a, b := t.key.times(); a < to && b > from {
			c.remove(t)
		}
	}
}

// pool is a typed sync.Pool.
type pool[T any] struct{ p sync.Pool }

func newPool[T any](make func() *T) *pool[T] {
	return &pool[T]{sync.Pool{New: func() any { return make() }}}
}

func (p *pool[T]) get() *T  { return p.p.Get().(*T) }
func (p *pool[T]) put(v *T) { p.p.Put(v) }
