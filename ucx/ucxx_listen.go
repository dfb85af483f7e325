package ucx

import (
	"context"
	"net"
	"sync"
)

// UCXXListener accepts connections of Python's UCXX and of DialUCXX.
type UCXXListener struct {
	l      *SockListener
	ctx    context.Context // ends with the listener
	cancel context.CancelFunc
	queue  chan *UCXXEndpoint
	slots  chan struct{} // bounds connections whose handshake is under way or that wait for Accept
	wg     sync.WaitGroup
}

// ListenUCXX listens on "host:port" (port 0: any) for UCXX's create_endpoint.
func (w *Worker) ListenUCXX(ctx context.Context, hostport string) (*UCXXListener, error) {
	if err := w.openUCXX(); err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: inner(err)}
	}
	sock, err := w.ListenSocket(ctx, hostport)
	if err != nil {
		return nil, err
	}
	l := &UCXXListener{l: sock, queue: make(chan *UCXXEndpoint), slots: make(chan struct{}, maxHandshakes)}
	l.ctx, l.cancel = context.WithCancel(background)
	l.wg.Add(1)
	go l.serve()
	return l, nil
}

func (l *UCXXListener) serve() {
	defer l.wg.Done()
	defer l.cancel()
	for {
		r, err := l.l.Next(l.ctx)
		if err != nil {
			return
		}
		select {
		case l.slots <- struct{}{}:
			l.wg.Add(1)
			go l.handshake(r)
		case <-l.ctx.Done():
			_ = r.Reject()
			return
		}
	}
}

func (l *UCXXListener) handshake(r *ConnRequest) {
	defer l.wg.Done()
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	ep, err := r.Accept(nil)
	if err != nil {
		return
	}
	e, err := newTagged(ctx, ep, true)
	if err != nil {
		if l.ctx.Err() == nil {
			logf("a UCXX client was refused: %v", err)
		}
		return
	}
	select {
	case l.queue <- e:
	case <-l.ctx.Done():
		ep.abort(ErrRejected)
		_ = ep.Close()
	}
}

// Accept waits for the next connection whose handshake is done.
func (l *UCXXListener) Accept(ctx context.Context) (*UCXXEndpoint, error) {
	var err error
	select {
	case e := <-l.queue:
		return e, nil
	case <-l.ctx.Done():
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, &OpError{Op: "accept", Peer: l.l.addr.String(), Err: err}
}

// Addr returns the bound address.
func (l *UCXXListener) Addr() net.Addr { return l.l.Addr() }

// Close stops listening and ends handshakes under way. Accepted endpoints live on.
func (l *UCXXListener) Close() error {
	l.cancel()
	err := l.l.Close()
	l.wg.Wait()
	return err
}
