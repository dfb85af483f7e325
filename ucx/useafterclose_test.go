package ucx

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

// afterClose is what every operation must say of something that is closed.
func afterClose(t *testing.T, what string, calls map[string]func(context.Context) error) {
	t.Helper()
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		select {
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close of the %s: %v", name, what, err)
			}
		case <-time.After(15 * time.Second):
			t.Errorf("%s after Close of the %s does not return", name, what)
		}
		cancel()
	}
}

// second drops a call's result.
func second[T any](_ T, err error) error { return err }

func TestContextUseAfterClose(t *testing.T) {
	c, err := NewContext(Config{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	m, err := c.Register(Buffer(buf))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	afterClose(t, "context", map[string]func(context.Context) error{
		"worker":   func(context.Context) error { return second(c.NewWorker(WorkerConfig{})) },
		"register": func(context.Context) error { return second(c.Register(Buffer(buf))) },
		"alloc":    func(context.Context) error { return second(c.Alloc(8, mem.Host)) },
		"resource": func(ctx context.Context) error { return second(c.Resource(mem.Host, 0).Alloc(ctx, 8)) },
	})
	// What has no error to give answers from what is known, or with nothing.
	if info := c.Info(); c.cfg.Name != "gone" || len(info.Options) == 0 || len(info.Transports) == 0 ||
		info.Library.Path == "" || c.cfg.Features != AllFeatures {
		t.Error("a closed context has forgotten what it was")
	}
	if n := c.Info().Registrations; n != 0 {
		t.Errorf("%d registrations after Close", n)
	}
	if c.supports(mem.Host) {
		t.Error("a closed context supports memory")
	}
	// A registration that outlives its context is memory and a key, no more.
	if m.Buffer().Len() != 100 || m.Key().Len() != 100 {
		t.Error("the memory has changed with the context's end")
	}
	m.Release()
	m.Release()
}

// endpointCalls is every operation of an endpoint.
func endpointCalls(ep *Endpoint) map[string]func(context.Context) error {
	b := func() View { return Bytes(make([]byte, 8)) }
	return map[string]func(context.Context) error{
		"send":              func(ctx context.Context) error { return ep.Send(ctx, b(), 1) },
		"send sync":         func(ctx context.Context) error { return ep.SendSync(ctx, b(), 1) },
		"receive":           func(ctx context.Context) error { return second(ep.Recv(ctx, b(), 1, FullMask)) },
		"send stream":       func(ctx context.Context) error { return ep.SendStream(ctx, b()) },
		"receive stream":    func(ctx context.Context) error { return second(ep.RecvStream(ctx, b(), false)) },
		"send message":      func(ctx context.Context) error { return ep.SendAM(ctx, 1, nil, AMOptions{}, b()) },
		"send frames":       func(ctx context.Context) error { return ep.SendFrames(ctx, b()) },
		"receive frames":    func(ctx context.Context) error { return second(ep.RecvFrames(ctx, Allocators{})) },
		"flush":             func(ctx context.Context) error { return ep.Flush(ctx) },
		"start send":        func(ctx context.Context) error { return ep.StartSend(b(), 1).Wait(ctx) },
		"start send sync":   func(ctx context.Context) error { return ep.StartSendSync(b(), 1).Wait(ctx) },
		"start receive":     func(ctx context.Context) error { return ep.StartRecv(b(), 1, FullMask).Wait(ctx) },
		"start stream":      func(ctx context.Context) error { return ep.StartSendStream(b()).Wait(ctx) },
		"start recv stream": func(ctx context.Context) error { return ep.StartRecvStream(b(), true).Wait(ctx) },
		"start message": func(ctx context.Context) error {
			return ep.StartSendAM(1, nil, AMOptions{},
				b()).Wait(ctx)
		},
		"start flush": func(ctx context.Context) error { return ep.StartFlush().Wait(ctx) },
		"info":        func(context.Context) error { return second(ep.Info()) },
		"transports":  func(context.Context) error { return second(ep.Transports()) },
		"estimate":    func(context.Context) error { return second(ep.EstimateTime(8)) },
		"conn":        func(ctx context.Context) error { return second(NewConn(ctx, ep, nil)) },
	}
}

func TestEndpointUseAfterClose(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	lib := a.Worker().Context().Info().Library
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-a.Done():
	default:
		t.Error("a closed endpoint is not done")
	}
	if err := a.Err(); err != nil {
		t.Errorf("error of an endpoint that was closed in peace: %v", err)
	}
	calls := endpointCalls(a)
	if !lib.AtLeast(1, 14) {
		delete(calls, "estimate") // UCX has none, and says that instead
	}
	afterClose(t, "endpoint", calls)
	if a.Peer() == "" || a.String() == "" || a.Worker() == nil || a.LocalAddr() == nil || a.RemoteAddr() == nil {
		t.Error("a closed endpoint has forgotten what it was")
	}
	// The other end learns of it.
	select {
	case <-b.Done():
	case <-ctx.Done():
		t.Fatal("the peer does not learn of the end")
	}
	delete(calls, "estimate")
	afterClose(t, "peer", map[string]func(context.Context) error{
		"send":  func(ctx context.Context) error { return b.Send(ctx, Bytes(make([]byte, 8)), 1) },
		"error": func(context.Context) error { return b.Err() },
	})
	if err := a.Worker().Close(); err != nil {
		t.Fatal(err)
	}
	afterClose(t, "endpoint's worker", calls)
	if err := a.Close(); err != nil {
		t.Errorf("close after the worker's end: %v", err)
	}
}

// heldMessages are a tag message and an active message that arrived and were not received.
func heldMessages(t *testing.T, ctx context.Context, from *Endpoint, w *Worker) (*Message, *AM) {
	t.Helper()
	const id, tag = 7, 7
	if err := w.OpenAM(id); err != nil {
		t.Fatal(err)
	}
	if err := from.Send(ctx, Bytes(make([]byte, 100)), tag); err != nil {
		t.Fatal(err)
	}
	if err := from.SendAM(ctx, id, nil, AMOptions{Eager: true}, Bytes(make([]byte, 100))); err != nil {
		t.Fatal(err)
	}
	am, err := w.RecvAM(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := w.ProbeRemove(tag, FullMask)
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if m != nil {
			return m, am
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWorkerUseAfterClose(t *testing.T) {
	ctx := testContext(t)
	w, wb := newWorker(t, Config{}, WorkerConfig{Name: "gone"}), newWorker(t, Config{}, WorkerConfig{})
	from, _ := connectPair(t, ctx, wb, w)
	other, err := wb.Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := wb.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held, am := heldMessages(t, ctx, from, w)
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := func() View { return Bytes(make([]byte, 100)) }
	at := l.Addr().String()
	afterClose(t, "worker", map[string]func(context.Context) error{
		"address":       func(context.Context) error { return second(w.Address()) },
		"net address":   func(context.Context) error { return second(w.address(true)) },
		"connect":       func(context.Context) error { return second(w.Connect(other, nil)) },
		"dial":          func(ctx context.Context) error { return second(w.Dial(ctx, at)) },
		"dial conn":     func(ctx context.Context) error { return second(w.DialConn(ctx, at, nil)) },
		"dial context":  func(ctx context.Context) error { return second(w.DialContext(ctx, "tcp", at)) },
		"dial socket":   func(ctx context.Context) error { return second(w.DialSocket(ctx, at, nil)) },
		"dial UCXX":     func(ctx context.Context) error { return second(w.DialUCXX(ctx, at)) },
		"listen":        func(ctx context.Context) error { return second(w.Listen(ctx, "127.0.0.1:0")) },
		"listen conn":   func(ctx context.Context) error { return second(w.ListenConn(ctx, "127.0.0.1:0", nil)) },
		"listen socket": func(ctx context.Context) error { return second(w.ListenSocket(ctx, "127.0.0.1:0")) },
		"listen UCXX":   func(ctx context.Context) error { return second(w.ListenUCXX(ctx, "127.0.0.1:0")) },
		"fence":         func(context.Context) error { return w.Fence() },
		"flush":         func(ctx context.Context) error { return w.Flush(ctx) },
		"start flush":   func(ctx context.Context) error { return w.StartFlush().Wait(ctx) },
		"info":          func(context.Context) error { return second(w.Info()) },
		"probe": func(context.Context) error {
			_, _, err := w.Probe(1, FullMask)
			return err
		},
		"probe remove":    func(context.Context) error { return second(w.ProbeRemove(1, FullMask)) },
		"receive":         func(ctx context.Context) error { return second(w.Recv(ctx, b(), 1, FullMask)) },
		"start receive":   func(ctx context.Context) error { return w.StartRecv(b(), 1, FullMask).Wait(ctx) },
		"open message id": func(context.Context) error { return w.OpenAM(9) },
		"receive message": func(ctx context.Context) error { return second(w.RecvAM(ctx, 7)) },
		"receive alloc": func(ctx context.Context) error {
			_, _, err := w.RecvAlloc(ctx, 1, FullMask, 100)
			return err
		},
		"handle messages": func(ctx context.Context) error {
			return w.HandleAM(ctx, 8, func(context.Context, *AM) {})
		},
		"held message": func(ctx context.Context) error { return second(held.Recv(ctx, b())) },
	})
	if w.Context() == nil || w.progress() != Adaptive || w.mode != threadSerialized {
		t.Error("a closed worker has forgotten what it was")
	}
	if held.Info().Len != 100 || am.Len != 100 {
		t.Error("a held message has changed with its worker's end")
	}
	// An eager message was copied when it came: it may be received still, or refused.
	if err := am.Recv(ctx, b()); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("held active message: %v", err)
	}
	am.Release()
	am.Release()
}

func TestListenerUseAfterClose(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	l, err := w.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sl, err := w.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(l.Close(), sl.Close()); err != nil {
			t.Fatal(err)
		}
	}
	calls := map[string]func(context.Context) error{
		"accept": func(ctx context.Context) error { return second(l.Accept(ctx)) },
		"accept conn": func(ctx context.Context) error {
			c, err := l.conns(nil)
			if err != nil {
				return err
			}
			defer c.Close()
			return second(c.acceptContext(ctx))
		},
		"socket accept": func(ctx context.Context) error { return second(sl.Accept(ctx)) },
		"socket next":   func(ctx context.Context) error { return second(sl.Next(ctx)) },
	}
	afterClose(t, "listener", calls)
	if l.Addr().String() == "" || sl.Addr().String() == "" {
		t.Error("a closed listener has forgotten its address")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	afterClose(t, "listener's worker", calls)
	if err := errors.Join(l.Close(), sl.Close()); err != nil {
		t.Errorf("close after the worker's end: %v", err)
	}
}
