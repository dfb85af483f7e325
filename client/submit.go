package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"strconv"
	"sync"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// scratch is memory for encoding a call. It is pooled, because submitting goroutines may be short-lived.
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
		return failedFuture[R](c, err)
	}
	if err := c.tracker.WaitForSpace(ctx); err != nil {
		return failedFuture[R](c, err)
	}
	o := newOptions(opts)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if err := build(&s.b); err != nil {
		return failedFuture[R](c, err)
	}
	s.spec = s.b.Append(s.spec[:0])
	c.advice.CheckSize(f.Name(), len(s.spec))
	c.advice.CheckWorkers(&o.notes)
	key := o.key
	if key == "" {
		s.key = appendKey(s.key[:0], f.Name(), s.spec, o.impure || o.actor)
		key = task.Key(s.key)
	}
	o.trace(ctx, f.Name(), key, 1)
	state, err := c.tracker.Submit(key, s.spec, s.b.Deps(), &o.notes, o.graph(ctx))
	runtime.KeepAlive(build) // futures among the arguments are held until the task that needs them is queued
	if err != nil {
		return failedFuture[R](c, err)
	}
	return newFuture[R](c, state)
}

// appendKey appends the key of a call: the name of the function and a hash of the call, or random bytes if the call is
// impure.
func appendKey(dst []byte, name string, spec []byte, impure bool) []byte {
	const digits = 32
	dst = msgpack.AppendStringHeader(dst, len(name)+1+digits)
	dst = append(append(dst, name...), '-')
	if impure {
		var b [digits / 2]byte
		_, _ = rand.Read(b[:]) // never fails
		return hex.AppendEncode(dst, b[:])
	}
	h := sha256.Sum256(spec)
	return hex.AppendEncode(dst, h[:digits/2])
}

// mapChunk is the number of tasks in one message: the cluster starts to run them while the client still encodes.
const mapChunk = 8192

// mapCalls sends n calls. It allocates memory for futures and their states in large blocks.
func mapCalls[R any](ctx context.Context, c *Client, f *task.Func, n int, opts []Option,
	build func(*task.Builder, int) error) []*Future[R] {
	o := newOptions(opts)
	c.advice.CheckWorkers(&o.notes)
	o.trace(ctx, f.Name(), "", n)
	futures := make([]*Future[R], n)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for at := 0; at < n; at += mapChunk {
		end := min(at+mapChunk, n)
		if err := mapSlab(ctx, c, f, s, &o, futures[at:end], at, build); err != nil {
			for i := at; i < n; i++ {
				futures[i] = failedFuture[R](c, err)
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
	if err := c.tracker.WaitForSpace(ctx); err != nil {
		return err
	}
	n := len(futures)
	slab := make([]Future[R], n)
	handles := make([]tracker.Handle, n)
	g := tracker.NewGraph(o.graph(ctx), false)
	w, notes := g.Writer(), g.Annotate(&o.notes)
	var keys []byte // all keys of the slab
	ends := make([]int32, n)
	for i := range n {
		slab[i].c = c
		if err := build(&s.b, at+i); err != nil {
			slab[i].err = err
			ends[i] = int32(len(keys))
			continue
		}
		s.spec = s.b.Append(s.spec[:0])
		c.advice.CheckSize(f.Name(), len(s.spec))
		from := len(keys)
		if o.key == "" {
			keys = appendKey(keys, f.Name(), s.spec, o.impure)
		} else {
			keys = msgpack.AppendString(keys, o.key.String()+"-"+strconv.Itoa(at+i))
		}
		if i == 0 {
			keys = append(make([]byte, 0, (len(keys)+4)*n), keys...)
			w.Grow((2*len(keys) + len(s.spec) + 16) * n)
		}
		ends[i] = int32(len(keys))
		w.SpecBytes(keys[from:], s.spec, s.b.Deps(), notes, int64(at+i))
	}
	err := c.tracker.SubmitSlab(g, task.Key(keys), ends, handles)
	runtime.KeepAlive(build) // futures among the arguments are held until the tasks that need them are queued
	if err != nil {
		return err
	}
	for i := range n {
		futures[i] = &slab[i]
		if slab[i].err == nil {
			slab[i].h = &handles[i]
		}
	}
	t := c.tracker
	runtime.AddCleanup(&slab[0], func(hs []tracker.Handle) { t.ReleaseSlab(hs) }, handles)
	return nil
}
