package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// processBuffers are the buffers of calls under way, by token: ranks of one process find each other's here, as a
// process cannot open its own memory by a handle.
var processBuffers struct {
	sync.Map // token → [2]*mem.Buffer, send and recv
	last     atomic.Uint64
}

// direct carries a call out on the ranks' memory itself. It reports false, alike on all ranks and before anything was
// done, if some rank cannot.
func (k *deviceCarrier) direct(ctx context.Context, dev gpu, c *Call, called calls, small bool) (done bool, err error) {
	mine, ids := k.word(dev, c, small)
	mine.token = processBuffers.last.Add(1)
	processBuffers.Store(mine.token, [2]*mem.Buffer{c.Send.Buffer, c.Recv.Buffer})
	defer processBuffers.Delete(mine.token)
	if err := waitReady(ctx, c.Send.Buffer, c.Recv.Buffer); err != nil {
		return false, err
	}
	// From here on others may be at work on these buffers, whatever happens to this rank.
	defer func() {
		if err != nil {
			quarantine(c.Send.Buffer, c.Recv.Buffer)
		}
	}()
	words, err := k.tell(ctx, &mine)
	if err != nil {
		return false, err
	}
	fresh := false
	for r := range words {
		if words[r].flags&wordsDirect == 0 {
			if r != k.g.rank && !small {
				k.why(fmt.Errorf("rank %d's memory cannot be opened by others", r))
			}
			return false, nil // perhaps other buffers can
		}
		fresh = fresh || words[r].flags&wordsFresh != 0
	}
	reach := reached{k: k, dev: dev, c: c, words: words}
	defer reach.release()
	e, err := reach.resolve(planOf(c, called, k.g.rank, actors(words)))
	defer e.release()
	if fresh {
		ok, agreeErr := k.allOf(ctx, err == nil)
		if agreeErr != nil {
			return false, agreeErr
		}
		if !ok {
			k.refused(err)
			return false, nil
		}
		k.failures = 0
		for _, id := range ids {
			k.announced[id] = true
		}
	}
	if err != nil {
		return false, err
	}
	last, err := e.enqueue(dev, c)
	if err == nil {
		err = waitEvent(ctx, last)
	}
	if err != nil {
		return false, err
	}
	if err := k.g.collect(ctx, &Call{Code: Barrier, Kind: Uint8}); err != nil {
		return false, err
	}
	k.why(nil)
	if c.Recv.Buffer != nil {
		c.Recv.Buffer.SetReady(nil) // everybody is through, and what is there is the result
	}
	return true, nil
}

// refused counts calls that could not be done directly although all ranks named their memory. What is open is closed,
// in case it stands in the way; after some in a row it is not tried again. err is this rank's reason, nil if it has
// none.
func (k *deviceCarrier) refused(err error) {
	if err != nil {
		k.why(fmt.Errorf("this rank cannot open %w", err))
	} else {
		k.why(errors.New("another rank cannot open this rank's memory"))
	}
	k.failures++
	k.indirect = k.failures >= maxFailures
	for r, q := range k.g.ranks {
		if r != k.g.rank {
			k.g.hub.maps.forget(q)
		}
	}
}

// maxFailures is how often opening memory may fail in a row.
const maxFailures = 3

// word is what this rank tells of a call, on little data or not, and the ids of its allocations that are new to the
// others.
func (k *deviceCarrier) word(dev gpu, c *Call, small bool) (w word, ids []uint64) {
	w = word{flags: wordsDirect, process: dev.process(), gpu: dev.identity(), scale: elem.ScaleOf(c.Op)}
	send, recv := shows(c, k.g.rank)
	for _, s := range [...]struct {
		b     *mem.Buffer
		shown bool
		to    *where
	}{{c.Send.Buffer, send, &w.send}, {c.Recv.Buffer, recv, &w.recv}} {
		if !s.shown || s.b == nil || s.b.Len() == 0 {
			continue
		}
		var err error
		if *s.to, err = dev.export(s.b); err != nil {
			k.why(err)
			w.flags &^= wordsDirect
			continue
		}
		if k.announced[s.to.id] || slices.Contains(ids, s.to.id) {
			continue
		}
		w.flags |= wordsFresh
		ids = append(ids, s.to.id)
		if small && !k.seen[s.to.id] {
			w.flags &^= wordsDirect // it may be the only time
			if len(k.seen) > 4*maxMappings {
				clear(k.seen)
			}
			k.seen[s.to.id] = true
		}
	}
	return w, ids
}

// tell lets all ranks know all ranks' words.
func (k *deviceCarrier) tell(ctx context.Context, mine *word) ([]word, error) {
	size := len(k.g.ranks)
	if k.words == nil {
		k.words = make([]byte, (size+1)*deviceWords)
	}
	own, all := k.words[:deviceWords], k.words[deviceWords:]
	mine.append(own[:0])
	if err := k.g.collect(ctx, &Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: own},
		Recv: Memory{Bytes: all}}); err != nil {
		return nil, err
	}
	words := make([]word, size)
	for r := range words {
		if err := words[r].parse(all[r*deviceWords : (r+1)*deviceWords]); err != nil {
			return nil, &opError{k.g.ranks[r], err}
		}
	}
	return words, nil
}

// allOf reports whether all ranks say yes.
func (k *deviceCarrier) allOf(ctx context.Context, yes bool) (bool, error) {
	own, all := []byte{0}, make([]byte, len(k.g.ranks))
	if yes {
		own[0] = 1
	}
	if err := k.g.collect(ctx, &Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: own},
		Recv: Memory{Bytes: all}}); err != nil {
		return false, err
	}
	return !slices.Contains(all, 0), nil
}

// quarantineTime is how long the memory of a call that failed stays allocated: a rank that has not heard of the failure
// yet may still work on it, for the milliseconds that a collective takes.
const quarantineTime = 2 * time.Second

func quarantine(bufs ...*mem.Buffer) {
	for _, b := range bufs {
		if b != nil {
			b.Retain()
			time.AfterFunc(quarantineTime, b.Release)
		}
	}
}

// reached finds the memory of places. It holds other ranks' allocations until release.
type reached struct {
	k     *deviceCarrier
	dev   gpu
	c     *Call
	words []word
	bufs  map[[2]int]*mem.Buffer // rank and 0 for send, 1 for recv: all of the rank's buffer
}

// buffer is a rank's send or recv.
func (r *reached) buffer(rank int, recv bool) (*mem.Buffer, error) {
	key := [2]int{rank, 0}
	own, w := r.c.Send.Buffer, &r.words[rank].send
	if recv {
		key[1], own, w = 1, r.c.Recv.Buffer, &r.words[rank].recv
	}
	if b := r.bufs[key]; b != nil {
		return b, nil
	}
	b, err := r.find(rank, key[1], own, w)
	if err != nil {
		return nil, fmt.Errorf("the memory of rank %d: %w", rank, err)
	}
	if r.bufs == nil {
		r.bufs = map[[2]int]*mem.Buffer{}
	}
	r.bufs[key] = b
	return b, nil
}

func (r *reached) find(rank, which int, own *mem.Buffer, w *where) (*mem.Buffer, error) {
	if rank == r.k.g.rank {
		return own.Retain(), nil
	}
	if w.id == 0 {
		return nil, errors.New("it was not told of")
	}
	if p := &r.words[rank]; p.process == r.dev.process() {
		v, ok := processBuffers.Load(p.token)
		if !ok {
			return nil, errors.New("it is in this process, but its call is over")
		}
		b := v.([2]*mem.Buffer)[which]
		if b == nil || uint64(b.Len()) != w.length {
			return nil, errors.New("it is in this process, and another than it was told of")
		}
		if b.Device() != r.dev.device() {
			return nil, fmt.Errorf("it is on device %d of this process, whose kernels reach device %d only", b.Device(),
				r.dev.device())
		}
		return b.Retain(), nil
	}
	whole, err := r.k.g.hub.maps.get(mapKey{r.k.g.ranks[rank], r.dev.device(), w.id}, w,
		func() (*mem.Buffer, error) { return r.dev.open(w.handle[:]) })
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	if w.offset > uint64(whole.Len()) || w.length > uint64(whole.Len())-w.offset {
		return nil, fmt.Errorf("%d bytes at %d of an allocation of %d", w.length, w.offset, whole.Len())
	}
	return whole.Slice(int(w.offset), int(w.length)), nil
}

func (r *reached) release() {
	for _, b := range r.bufs {
		b.Release()
	}
	r.bufs = nil
}

// view is the memory of a place, to be released.
func (r *reached) view(p place) (*mem.Buffer, error) {
	b, err := r.buffer(p.rank, p.recv)
	if err != nil {
		return nil, err
	}
	if p.at+p.n > b.Len() {
		return nil, fmt.Errorf("rank %d told of %d bytes, not the %d that its call says", p.rank, b.Len(), p.at+p.n)
	}
	return b.Slice(p.at, p.n), nil
}
