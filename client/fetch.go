package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Bounds of a request for results.
const (
	fetchKeys    = 16384 // in one request
	fetchWorkers = 16    // that are asked at once
)

// fetch waits for keys and hands each result to sink, from several goroutines but one call
// at a time for each index.
func (c *Client) fetch(ctx context.Context, keys []*keyState, sink func(i int, v value) error) error {
	left := make([]int, len(keys))
	for i := range left {
		left[i] = i
	}
	for round := 0; ; round++ {
		if err := c.waitAll(ctx, keys, true); err != nil {
			return err
		}
		missing, err := left, error(nil)
		if !c.cfg.NoDirect {
			missing, err = c.fetchOnce(ctx, keys, left, sink)
		}
		if err != nil || len(missing) == 0 {
			return err
		}
		if moved := c.forgetPlaces(keys, missing); moved && !c.cfg.NoDirect { // ask where they are now
			if missing, err = c.fetchOnce(ctx, keys, missing, sink); err != nil || len(missing) == 0 {
				return err
			}
			c.forgetPlaces(keys, missing)
		}
		if left, err = c.throughScheduler(ctx, keys, missing, sink); err != nil || len(left) == 0 {
			return err
		}
		// Nobody has them: the scheduler says when they are there again.
		c.askAgain(keys, left)
		select {
		case <-time.After(min(10*time.Millisecond<<min(round, 7), time.Second)/2 + rand.N(5*time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// forgetPlaces forgets where results are that were not there. It tells whether it was known of
// any.
func (c *Client) forgetPlaces(keys []*keyState, which []int) (known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range which {
		known = known || keys[i].where >= 0
		keys[i].where = -1
	}
	return known
}

// askAgain takes back that keys are finished and asks the scheduler about them.
func (c *Client) askAgain(keys []*keyState, which []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range which {
		ks := keys[i]
		if ks.status == Finished {
			ks.status, ks.where = Lost, -1
		}
		b := msgpack.AppendMapHeader(nil, 2)
		b = appendField(b, "op", "report-key")
		b = append(msgpack.AppendString(b, "key"), ks.key...)
		c.say(b)
	}
}

// fetchOnce asks the workers that have the results. It returns those that did not come.
func (c *Client) fetchOnce(ctx context.Context, keys []*keyState, which []int,
	sink func(int, value) error) (missing []int, err error) {
	byWorker, unknown := c.byWorker(keys, which)
	if len(unknown) > 0 {
		if err := c.locate(ctx, keys, unknown); err != nil {
			return nil, err
		}
		more, nowhere := c.byWorker(keys, unknown)
		for a, is := range more {
			byWorker[a] = append(byWorker[a], is...)
		}
		missing = nowhere
	}
	type request struct {
		address string
		which   []int
	}
	var requests []request
	for a, is := range byWorker {
		for len(is) > 0 {
			n := min(len(is), fetchKeys)
			requests = append(requests, request{a, is[:n]})
			is = is[n:]
		}
	}
	if len(requests) == 1 {
		m, err := c.getData(ctx, requests[0].address, keys, requests[0].which, sink)
		return append(missing, m...), err
	}
	var mu sync.Mutex // owns missing and err
	var wg sync.WaitGroup
	slots := make(chan struct{}, fetchWorkers)
	for _, r := range requests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m, e := c.getData(ctx, r.address, keys, r.which, sink)
			mu.Lock()
			defer mu.Unlock()
			missing = append(missing, m...)
			if err == nil {
				err = e
			}
		})
	}
	wg.Wait()
	return missing, err
}

// byWorker sorts keys by a worker that has them; unknown are those of which none is known.
func (c *Client) byWorker(keys []*keyState, which []int) (byWorker map[string][]int, unknown []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lists := make([][]int, len(c.addresses))
	for _, i := range which {
		if w := keys[i].where; w >= 0 {
			lists[w] = append(lists[w], i)
		} else {
			unknown = append(unknown, i)
		}
	}
	byWorker = make(map[string][]int)
	for w, l := range lists {
		if len(l) > 0 {
			byWorker[c.addresses[w]] = l
		}
	}
	return byWorker, unknown
}

// locate asks the scheduler where results are.
func (c *Client) locate(ctx context.Context, keys []*keyState, which []int) error {
	m, err := c.do(ctx, "who_has", keysRequest("who_has", keys, which))
	if err != nil {
		return err
	}
	defer m.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := msgpack.NewReader(m.Body())
	n, err := r.ReadMapLen()
	if err != nil {
		return fmt.Errorf("client: answer to who_has: %w", err)
	}
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return fmt.Errorf("client: answer to who_has: %w", err)
		}
		ks := c.keys[task.Key(k)]
		at, err := c.firstAddress(&r)
		if err != nil {
			return fmt.Errorf("client: answer to who_has: %w", err)
		}
		if ks != nil {
			ks.where = at
		}
	}
	return nil
}

// keysRequest is a request about keys, as a message.
func keysRequest(op string, keys []*keyState, which []int) *wire.Message {
	n := 64
	for _, i := range which {
		n += len(keys[i].key)
	}
	b := msgpack.AppendMapHeader(make([]byte, 0, n), 3)
	b = appendField(b, "op", op)
	b = msgpack.AppendString(b, "reply")
	b = msgpack.AppendBool(b, true)
	b = msgpack.AppendString(b, "keys")
	b = msgpack.AppendArrayHeader(b, len(which))
	for _, i := range which {
		b = append(b, keys[i].key...)
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
}

// do asks the scheduler and returns the answer as it came, unless it is an error.
func (c *Client) do(ctx context.Context, op string, request *wire.Message) (*wire.Message, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	ctx, stop := c.within(ctx)
	defer stop()
	m, err := c.pool.Do(ctx, c.address, op, request)
	if err != nil {
		return nil, err
	}
	if err := replyError(op, c.address, m); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// replyError finds the error in an answer.
func replyError(op, peer string, m *wire.Message) error {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return fmt.Errorf("client: %s: an answer without a body", op)
	}
	r := msgpack.NewReader(m.Body())
	if r.Kind() != msgpack.MapKind {
		if r.Kind() == msgpack.Nil {
			return fmt.Errorf("client: %s at %s: %w", op, peer, rpc.ErrNilReply)
		}
		return nil
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		if r.Kind() != msgpack.Str {
			return nil
		}
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		if string(name) == "exception" || string(name) == "exception_text" {
			v, err := wire.Decode(m, wire.DecodeOptions{})
			if err != nil {
				return err
			}
			return rpc.ReplyError(op, peer, v)
		}
		if err := r.Skip(); err != nil {
			return err
		}
	}
	return nil
}

// throughScheduler asks the scheduler for results that no worker handed over: the client may
// be where workers cannot be reached.
func (c *Client) throughScheduler(ctx context.Context, keys []*keyState, which []int,
	sink func(int, value) error) (missing []int, err error) {
	for len(which) > 0 {
		n := min(len(which), fetchKeys)
		m, err := c.do(ctx, "gather", keysRequest("gather", keys, which[:n]))
		if err != nil {
			return nil, err
		}
		left, err := takeData(m, keys, which[:n], sink)
		m.Release()
		if err != nil {
			return nil, err
		}
		missing = append(missing, left...)
		which = which[n:]
	}
	return missing, nil
}
