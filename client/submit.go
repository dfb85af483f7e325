package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"strconv"
	"sync"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// scratch is what encoding a call needs; pooled, as submitters come and go.
type scratch struct {
	b    task.Builder
	spec []byte
	key  []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// submit sends one call.
func submit[R any](ctx context.Context, c *Client, f *task.Func, opts []Option,
	build func(*task.Builder) error) *Future[R] {
	if err := ctx.Err(); err != nil {
		return failed[R](c, err)
	}
	if err := c.room(ctx); err != nil {
		return failed[R](c, err)
	}
	o := newOptions(opts)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if err := build(&s.b); err != nil {
		return failed[R](c, err)
	}
	s.spec = s.b.Append(s.spec[:0])
	c.checkSize(f.Name(), len(s.spec))
	c.checkWorkers(&o.notes)
	key := o.key
	if key == "" {
		s.key = appendKey(s.key[:0], f.Name(), s.spec, o.impure || o.actor)
		key = task.Key(s.key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return failed[R](c, c.closed)
	}
	ks, fresh := c.hold(key)
	if fresh || ks.status == Canceled {
		if !fresh {
			c.again(ks)
		}
		c.queued += int64(len(s.spec) + len(key))
		g := c.graphFor(o.graph(ctx))
		g.w.Spec(key, s.spec, s.b.Deps(), g.annotate(&o.notes), int64(g.w.Len()))
		g.want(ks)
		c.poke()
	}
	return newFuture[R](c, ks)
}

// appendKey appends the key of a call: the function's name and a hash of the call, or for
// impure ones random bytes.
func appendKey(dst []byte, name string, spec []byte, impure bool) []byte {
	const digits = 32
	dst = msgpack.AppendStringHeader(dst, len(name)+1+digits)
	dst = append(append(dst, name...), '-')
	if impure {
		return append(dst, randomHex(digits/2)...)
	}
	h := sha256.Sum256(spec)
	return hex.AppendEncode(dst, h[:digits/2])
}

// mapChunk is how many tasks travel in one message: the cluster begins while the client
// still encodes.
const mapChunk = 8192

// mapCalls sends n calls. Futures and their states are in few allocations.
func mapCalls[R any](ctx context.Context, c *Client, f *task.Func, n int, opts []Option,
	build func(*task.Builder, int) error) []*Future[R] {
	o := newOptions(opts)
	c.checkWorkers(&o.notes)
	futures := make([]*Future[R], n)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for at := 0; at < n; at += mapChunk {
		end := min(at+mapChunk, n)
		if err := mapSlab(ctx, c, f, s, &o, futures[at:end], at, build); err != nil {
			for i := at; i < n; i++ {
				futures[i] = failed[R](c, err)
			}
			break
		}
	}
	return futures
}

// mapSlab encodes and sends the calls from index at on.
func mapSlab[R any](ctx context.Context, c *Client, f *task.Func, s *scratch, o *options, futures []*Future[R], at int,
	build func(*task.Builder, int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.room(ctx); err != nil {
		return err
	}
	n := len(futures)
	slab := make([]Future[R], n)
	handles := make([]handle, n)
	states := make([]keyState, n)
	g := &graphOut{opts: o.graph(ctx)}
	notes := g.annotate(&o.notes)
	var keys []byte // all of the slab, in one piece of memory
	ends := make([]int32, n)
	for i := range n {
		slab[i].c = c
		if err := build(&s.b, at+i); err != nil {
			slab[i].err = err
			ends[i] = int32(len(keys))
			continue
		}
		s.spec = s.b.Append(s.spec[:0])
		c.checkSize(f.Name(), len(s.spec))
		from := len(keys)
		if o.key == "" {
			keys = appendKey(keys, f.Name(), s.spec, o.impure)
		} else {
			keys = msgpack.AppendString(keys, o.key.String()+"-"+strconv.Itoa(at+i))
		}
		if i == 0 {
			keys = append(make([]byte, 0, (len(keys)+4)*n), keys...)
			g.w.Grow((2*len(keys) + len(s.spec) + 16) * n)
		}
		ends[i] = int32(len(keys))
		g.w.SpecBytes(keys[from:], s.spec, s.b.Deps(), notes, int64(at+i))
	}
	all := task.Key(keys)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return c.closed
	}
	from := int32(0)
	g.wanted = make([]byte, 0, len(all))
	for i := range n {
		futures[i] = &slab[i]
		if slab[i].err != nil {
			continue
		}
		key := all[from:ends[i]]
		from = ends[i]
		ks := c.keys[key]
		if ks == nil {
			ks = &states[i]
			ks.key, ks.where, ks.born = key, -1, c.cancels
			c.keys[key] = ks
		} else if ks.status == Canceled {
			c.again(ks)
		}
		ks.refs++
		handles[i].ks = ks
		slab[i].h = &handles[i]
		g.want(ks)
	}
	if g.n == 0 {
		return nil
	}
	c.queue(g)
	c.poke()
	runtime.AddCleanup(&slab[0], func(hs []handle) { c.releaseAll(hs) }, handles)
	return nil
}
