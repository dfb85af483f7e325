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

// processBuffers has the buffers of calls in flight by token. Ranks of the same process find each other's buffers here,
// because a process cannot open its own memory by a handle.
var processBuffers struct {
	sync.Map // token → [2]*mem.Buffer, send and recv
	last     atomic.Uint64
}

// runDirect runs a call on the memory of the ranks. If some rank cannot, it reports false on all ranks, before anything
// was done.
func (k *deviceCarrier) runDirect(ctx context.Context, dev gpu, c *Call, called calls, small bool) (done bool,
	err error) {
	mine, ids := k.info(dev, c, small)
	mine.token = processBuffers.last.Add(1)
	processBuffers.Store(mine.token, [2]*mem.Buffer{c.Send.Buffer, c.Recv.Buffer})
	defer processBuffers.Delete(mine.token)
	if err := waitReady(ctx, c.Send.Buffer, c.Recv.Buffer); err != nil {
		return false, err
	}
	// From here on other ranks may access these buffers, even if this rank fails.
	defer func() {
		if err != nil {
			quarantine(c.Send.Buffer, c.Recv.Buffer)
		}
	}()
	infos, err := k.exchangeInfo(ctx, &mine)
	if err != nil {
		return false, err
	}
	fresh := false
	for r := range infos {
		if infos[r].flags&infoDirect == 0 {
			if r != k.g.rank && !small {
				k.setReason(fmt.Errorf("memory of rank %d cannot be opened by other ranks", r))
			}
			return false, nil // other buffers may be accessible
		}
		fresh = fresh || infos[r].flags&infoNew != 0
	}
	res := resolver{k: k, dev: dev, c: c, infos: infos}
	defer res.release()
	e, err := res.resolve(planOf(c, called, k.g.rank, actors(infos)))
	defer e.release()
	if fresh {
		ok, agreeErr := k.allAgree(ctx, err == nil)
		if agreeErr != nil {
			return false, agreeErr
		}
		if !ok {
			k.countFailure(err)
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
	k.setReason(nil)
	if c.Recv.Buffer != nil {
		c.Recv.Buffer.SetReady(nil) // all ranks are done, and the buffer has the result
	}
	return true, nil
}

// countFailure counts calls that could not run directly although all ranks exported their memory. It closes the open
// memory of other ranks, in case that prevents opening it; after maxFailures in a row the carrier stages all calls. err
// is the reason on this rank, nil if another rank failed.
func (k *deviceCarrier) countFailure(err error) {
	if err != nil {
		k.setReason(fmt.Errorf("open %w", err))
	} else {
		k.setReason(errors.New("another rank cannot open the memory of this rank"))
	}
	k.failures++
	k.indirect = k.failures >= maxFailures
	for r, q := range k.g.ranks {
		if r != k.g.rank {
			k.g.hub.maps.closeRank(q)
		}
	}
}

// maxFailures bounds consecutive failures to open memory.
const maxFailures = 3

// info returns the deviceInfo of this rank for a call, and the ids of its allocations that the other ranks have not
// opened.
func (k *deviceCarrier) info(dev gpu, c *Call, small bool) (w deviceInfo, ids []uint64) {
	w = deviceInfo{flags: infoDirect, process: dev.process(), gpu: dev.identity(), scale: elem.ScaleOf(c.Op)}
	send, recv := exposes(c, k.g.rank)
	for _, s := range [...]struct {
		b     *mem.Buffer
		shown bool
		to    *bufferRef
	}{{c.Send.Buffer, send, &w.send}, {c.Recv.Buffer, recv, &w.recv}} {
		if !s.shown || s.b == nil || s.b.Len() == 0 {
			continue
		}
		var err error
		if *s.to, err = dev.export(s.b); err != nil {
			k.setReason(err)
			w.flags &^= infoDirect
			continue
		}
		if k.announced[s.to.id] || slices.Contains(ids, s.to.id) {
			continue
		}
		w.flags |= infoNew
		ids = append(ids, s.to.id)
		if small && !k.seen[s.to.id] {
			w.flags &^= infoDirect // the allocation may not be used again
			if len(k.seen) > 4*maxMappings {
				clear(k.seen)
			}
			k.seen[s.to.id] = true
		}
	}
	return w, ids
}

// exchangeInfo sends the deviceInfo of all ranks to all ranks.
func (k *deviceCarrier) exchangeInfo(ctx context.Context, mine *deviceInfo) ([]deviceInfo, error) {
	size := len(k.g.ranks)
	if k.infos == nil {
		k.infos = make([]byte, (size+1)*infoBytes)
	}
	own, all := k.infos[:infoBytes], k.infos[infoBytes:]
	mine.append(own[:0])
	if err := k.g.collect(ctx, &Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: own},
		Recv: Memory{Bytes: all}}); err != nil {
		return nil, err
	}
	infos := make([]deviceInfo, size)
	for r := range infos {
		if err := infos[r].parse(all[r*infoBytes : (r+1)*infoBytes]); err != nil {
			return nil, &opError{k.g.ranks[r], err}
		}
	}
	return infos, nil
}

// allAgree reports whether yes is true on all ranks.
func (k *deviceCarrier) allAgree(ctx context.Context, yes bool) (bool, error) {
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

// quarantineTime is how long the memory of a failed call stays allocated: a rank that has not received the failure may
// still access it, for the milliseconds that a collective takes.
const quarantineTime = 2 * time.Second

func quarantine(bufs ...*mem.Buffer) {
	for _, b := range bufs {
		if b != nil {
			b.Retain()
			time.AfterFunc(quarantineTime, b.Release)
		}
	}
}

// resolver maps places to memory. It holds allocations of other ranks until release.
type resolver struct {
	k     *deviceCarrier
	dev   gpu
	c     *Call
	infos []deviceInfo
	bufs  map[[2]int]*mem.Buffer // by rank and 0 for send, 1 for recv: the whole buffer of the rank
}

// buffer returns the send or recv buffer of a rank.
func (r *resolver) buffer(rank int, recv bool) (*mem.Buffer, error) {
	key := [2]int{rank, 0}
	own, w := r.c.Send.Buffer, &r.infos[rank].send
	if recv {
		key[1], own, w = 1, r.c.Recv.Buffer, &r.infos[rank].recv
	}
	if b := r.bufs[key]; b != nil {
		return b, nil
	}
	b, err := r.find(rank, key[1], own, w)
	if err != nil {
		return nil, fmt.Errorf("memory of rank %d: %w", rank, err)
	}
	if r.bufs == nil {
		r.bufs = map[[2]int]*mem.Buffer{}
	}
	r.bufs[key] = b
	return b, nil
}

func (r *resolver) find(rank, which int, own *mem.Buffer, w *bufferRef) (*mem.Buffer, error) {
	if rank == r.k.g.rank {
		return own.Retain(), nil
	}
	if w.id == 0 {
		return nil, errors.New("not exported")
	}
	if p := &r.infos[rank]; p.process == r.dev.process() {
		v, ok := processBuffers.Load(p.token)
		if !ok {
			return nil, errors.New("in this process, but the call has ended")
		}
		b := v.([2]*mem.Buffer)[which]
		if b == nil || uint64(b.Len()) != w.length {
			return nil, errors.New("in this process, but not the exported buffer")
		}
		if b.Device() != r.dev.device() {
			return nil, fmt.Errorf("on device %d of this process, but this rank uses device %d", b.Device(),
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
		return nil, fmt.Errorf("%d bytes at offset %d exceed the allocation of %d bytes", w.length, w.offset,
			whole.Len())
	}
	return whole.Slice(int(w.offset), int(w.length)), nil
}

func (r *resolver) release() {
	for _, b := range r.bufs {
		b.Release()
	}
	r.bufs = nil
}

// view returns the memory of a place. The caller releases it.
func (r *resolver) view(p place) (*mem.Buffer, error) {
	b, err := r.buffer(p.rank, p.recv)
	if err != nil {
		return nil, err
	}
	if p.at+p.n > b.Len() {
		return nil, fmt.Errorf("rank %d exported %d bytes, but its call needs %d", p.rank, b.Len(), p.at+p.n)
	}
	return b.Slice(p.at, p.n), nil
}
