package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// ucxTransport sends data as UCX tag messages. A mesh next to it carries addresses, leave messages and aborts, and
// detects lost ranks: UCX detects them late, or never while a large send waits.
type ucxTransport struct {
	mesh     *mesh
	worker   *ucx.Worker
	eps      []*ucx.Endpoint // nil for this rank
	failures chan *RankError
	watched  chan struct{} // closed when watch has returned

	mu      sync.Mutex
	gone    []*RankError // why a rank sends nothing more
	aborted *RankError
	closing bool
	closed  chan struct{}
}

// lastChannel is the channel of the last message of a rank. Tag messages between two workers are matched in order, so
// all earlier messages have arrived before it.
const lastChannel = 1<<52 - 1

// NewUCX returns a transport that moves data over UCX. over, a transport of NewComm, stays open for leave messages,
// aborts and the detection of lost ranks. worker must not be used by others, because UCX matches tags by worker; the
// transport closes it, even if NewUCX fails. addresses are the worker addresses of all ranks; if it is nil, they are
// exchanged over the mesh.
func NewUCX(ctx context.Context, over Transport, worker *ucx.Worker, addresses []ucx.WorkerAddress) (Transport, error) {
	m, ok := over.(*mesh)
	if !ok {
		_ = over.Close()
		_ = worker.Close()
		return nil, fmt.Errorf("collective: UCX transport needs a transport of NewComm, not %s", over.Name())
	}
	u := &ucxTransport{mesh: m, worker: worker, eps: make([]*ucx.Endpoint, m.size), gone: make([]*RankError, m.size),
		failures: make(chan *RankError, cap(m.failures)), watched: make(chan struct{}), closed: make(chan struct{})}
	fail := func(err error) (Transport, error) {
		_ = m.Close()
		_ = worker.Close()
		return nil, fmt.Errorf("collective: connect ranks over UCX: %w", err)
	}
	if addresses == nil {
		var err error
		if addresses, err = u.exchangeAddresses(ctx); err != nil {
			return fail(err)
		}
	}
	if len(addresses) != m.size {
		return fail(fmt.Errorf("%d worker addresses for %d ranks", len(addresses), m.size))
	}
	for r, a := range addresses {
		if r == m.rank {
			continue
		}
		ep, err := worker.Connect(a, &ucx.EndpointConfig{Name: fmt.Sprintf("rank %d", r)})
		if err != nil {
			return fail(fmt.Errorf("rank %d: %w", r, err))
		}
		u.eps[r] = ep
	}
	go u.watch()
	return u, nil
}

// maxAddress bounds a worker address, which grows with the devices of a host.
const maxAddress = 256 << 10

func (u *ucxTransport) exchangeAddresses(ctx context.Context) ([]ucx.WorkerAddress, error) {
	own, err := u.worker.Address()
	if err != nil {
		return nil, err
	}
	m := u.mesh
	all := make([]ucx.WorkerAddress, m.size)
	all[m.rank] = own
	sends := make([]Pending, m.size)
	for r := range sends {
		if r != m.rank {
			sends[r] = m.StartSend(r, lastChannel, own)
		}
	}
	buf := make([]byte, maxAddress)
	var first error
	for r := range all {
		if r == m.rank {
			continue
		}
		wait := ctx
		if first != nil {
			wait = Ended
		}
		n, err := m.Recv(wait, r, lastChannel, buf)
		if err != nil {
			first = errors.Join(first, fmt.Errorf("receive address of rank %d: %w", r, err))
			continue
		}
		all[r] = append(ucx.WorkerAddress(nil), buf[:n]...)
	}
	for r, s := range sends {
		if s == nil {
			continue
		}
		if _, err := s.Wait(ctx); err != nil && first == nil {
			first = fmt.Errorf("send address to rank %d: %w", r, err)
		}
	}
	return all, first
}

func (u *ucxTransport) Name() string                { return "ucx" }
func (u *ucxTransport) Rank() int                   { return u.mesh.rank }
func (u *ucxTransport) Size() int                   { return u.mesh.size }
func (u *ucxTransport) Failures() <-chan *RankError { return u.failures }

// tag returns the tag for the rank of the sender and a channel.
func tag(from int, ch uint64) uint64 { return uint64(from)<<52 | ch }

// watch forwards the failures of the mesh when no more messages of the rank can arrive.
func (u *ucxTransport) watch() {
	defer close(u.watched)
	for e := range u.mesh.Failures() {
		if e.left {
			u.drain(e.Rank)
		}
		if e.left || e.Err != nil { // the rank itself was lost or has left
			u.mu.Lock()
			u.gone[e.Rank] = e
			u.mu.Unlock()
			forceClose(u.eps[e.Rank])
		}
		u.failures <- e
	}
	close(u.failures)
}

// drain waits for the last message of a rank that has left.
func (u *ucxTransport) drain(rank int) {
	ctx, cancel := context.WithTimeout(context.Background(), Grace)
	defer cancel()
	_, _ = u.eps[rank].Recv(ctx, ucx.Bytes(nil), tag(rank, lastChannel), ucx.FullMask)
}

// forceClose closes an endpoint by force, which ends its operations immediately.
func forceClose(ep *ucx.Endpoint) {
	if ep != nil {
		_ = ep.Shutdown(Ended)
	}
}

// reason returns why an operation with a rank failed: the failure of the rank if it is known, else err.
func (u *ucxTransport) reason(rank int, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case u.aborted != nil:
		return u.aborted
	case u.gone[rank] != nil:
		return u.gone[rank]
	}
	return err
}

func (u *ucxTransport) Send(ctx context.Context, to int, ch uint64, b []byte) error {
	if to == u.mesh.rank {
		return u.mesh.Send(ctx, to, ch, b)
	}
	return u.reason(to, u.eps[to].Send(ctx, ucx.Bytes(b), tag(u.mesh.rank, ch)))
}

func (u *ucxTransport) Recv(ctx context.Context, from int, ch uint64, b []byte) (int, error) {
	if from == u.mesh.rank {
		return u.mesh.Recv(ctx, from, ch, b)
	}
	if p := u.recvArrived(from, ch, ucx.Bytes(b)); p != nil {
		return p.Wait(ctx)
	}
	info, err := u.eps[from].Recv(ctx, ucx.Bytes(b), tag(from, ch), ucx.FullMask)
	if err != nil && u.isGone(from) { // the message may have arrived before
		if p := u.recvArrived(from, ch, ucx.Bytes(b)); p != nil {
			return p.Wait(ctx)
		}
	}
	return info.Len, u.reason(from, err)
}

func (u *ucxTransport) isGone(rank int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.gone[rank] != nil && u.aborted == nil
}

// recvArrived receives a message that a rank has sent before it left. It returns nil if the rank has not left.
func (u *ucxTransport) recvArrived(from int, ch uint64, v ucx.View) Pending {
	u.mu.Lock()
	e, aborted := u.gone[from], u.aborted
	u.mu.Unlock()
	switch {
	case aborted != nil:
		return Finished{0, aborted}
	case e == nil:
		return nil
	}
	m, err := u.worker.ProbeRemove(tag(from, ch), ucx.FullMask)
	if err != nil || m == nil {
		return Finished{0, e}
	}
	info, err := m.Recv(context.Background(), v) // the message has arrived
	return Finished{info.Len, err}
}

func (u *ucxTransport) StartSend(to int, ch uint64, b []byte) Pending {
	if to == u.mesh.rank {
		return u.mesh.StartSend(to, ch, b)
	}
	return u.startSend(to, ch, ucx.Bytes(b))
}

func (u *ucxTransport) startSend(to int, ch uint64, v ucx.View) Pending {
	return &ucxOp{u: u, rank: to, n: v.Len(), r: u.eps[to].StartSend(v, tag(u.mesh.rank, ch))}
}

// StartSendBuffer is StartSend of device memory to another rank. UCX waits for the last write to b.
func (u *ucxTransport) StartSendBuffer(to int, ch uint64, b *mem.Buffer) Pending {
	return u.startSend(to, ch, ucx.Buffer(b))
}

// StartRecvBuffer is StartRecv of device memory from another rank.
func (u *ucxTransport) StartRecvBuffer(from int, ch uint64, b *mem.Buffer) Pending {
	return u.startRecv(from, ch, ucx.Buffer(b))
}

func (u *ucxTransport) StartRecv(from int, ch uint64, b []byte) Pending {
	if from == u.mesh.rank {
		return u.mesh.StartRecv(from, ch, b)
	}
	return u.startRecv(from, ch, ucx.Bytes(b))
}

func (u *ucxTransport) startRecv(from int, ch uint64, v ucx.View) Pending {
	if p := u.recvArrived(from, ch, v); p != nil {
		return p
	}
	return &ucxOp{u: u, rank: from, ch: ch, view: v, recv: true,
		r: u.eps[from].StartRecv(v, tag(from, ch), ucx.FullMask)}
}

// ucxOp is a UCX request.
type ucxOp struct {
	u    *ucxTransport
	r    *ucx.Request
	rank int
	ch   uint64
	view ucx.View
	n    int
	recv bool
}

// Wait implements Pending. UCX releases memory in use only when the endpoint is closed.
func (o *ucxOp) Wait(ctx context.Context) (int, error) {
	err := o.r.Wait(ctx)
	if err != nil {
		select {
		case <-o.r.Done():
			err = o.r.Err()
		default: // ctx has ended before the request
			o.r.Cancel()
			if o.recv && o.r.Wait(Ended) != nil {
				short, cancel := context.WithTimeout(context.Background(), Grace/10)
				_ = o.r.Wait(short)
				cancel()
			}
			select {
			case <-o.r.Done():
			default:
				forceClose(o.u.eps[o.rank])
				<-o.r.Done()
			}
			if o.r.Err() != nil {
				return 0, context.Cause(ctx)
			}
			err = nil
		}
	}
	if err != nil && o.recv && o.u.isGone(o.rank) {
		if p := o.u.recvArrived(o.rank, o.ch, o.view); p != nil {
			return p.Wait(ctx)
		}
	}
	if err != nil {
		return 0, o.u.reason(o.rank, err)
	}
	if o.recv {
		return o.r.Info().Len, nil
	}
	return o.n, nil
}

// Abort implements Transport. It sends the aborts first, so that ranks whose endpoints fail get the reason.
func (u *ucxTransport) Abort(e *RankError) {
	u.mu.Lock()
	if u.aborted != nil || u.closing {
		u.mu.Unlock()
		return
	}
	u.aborted = e
	u.mu.Unlock()
	u.mesh.Abort(e)
	for _, ep := range u.eps {
		forceClose(ep)
	}
}

// discardUnexpected receives messages without a receive, mostly leave messages, because UCX warns about them.
func (u *ucxTransport) discardUnexpected() {
	ctx, cancel := context.WithTimeout(context.Background(), Grace/10)
	defer cancel()
	buf := make([]byte, 4<<10)
	for ctx.Err() == nil {
		m, err := u.worker.ProbeRemove(0, ucx.AnyTag)
		if err != nil || m == nil {
			return
		}
		_, _ = m.Recv(ctx, ucx.Bytes(buf)) // may be truncated
	}
}

// Close implements Transport.
func (u *ucxTransport) Close() error {
	u.mu.Lock()
	if u.closing {
		u.mu.Unlock()
		<-u.closed
		return nil
	}
	u.closing = true
	aborted := u.aborted != nil
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), Grace)
	defer cancel()
	if !aborted {
		var all sync.WaitGroup
		for _, ep := range u.eps {
			if ep == nil {
				continue
			}
			all.Go(func() {
				if ep.Send(ctx, ucx.Bytes(nil), tag(u.mesh.rank, lastChannel)) == nil {
					_ = ep.Flush(ctx)
				}
			})
		}
		all.Wait()
	}
	err := u.mesh.Close()
	<-u.watched
	u.discardUnexpected()
	for _, ep := range u.eps {
		forceClose(ep)
	}
	err = errors.Join(err, u.worker.Close())
	close(u.closed)
	return err
}
