package ucx

import (
	"runtime"
	"sync/atomic"
	"testing"

	"go.millstream.dev/ucx/internal/ucp"
)

// hold takes the worker's token, so that nothing happens on the worker but what drive does.
func hold(w *Worker) {
	for !w.drv.tryToken() {
		runtime.Gosched()
	}
}

// drive submits what is queued, and then makes progress once. The token is held.
func drive(w *Worker) {
	ucp.Drive(w.drv.c, nil, 0)
	w.drv.dispatch()
}

// queued waits until an operation waits for the token of a worker.
func queued(w *Worker) {
	for atomic.LoadPointer(&w.drv.c.Submissions) == nil {
		runtime.Gosched()
	}
}

// connectHeld makes an endpoint on a worker whose token is held.
func connectHeld(t *testing.T, w *Worker, addr WorkerAddress) *Endpoint {
	t.Helper()
	type result struct {
		ep  *Endpoint
		err error
	}
	got := make(chan result, 1)
	go func() {
		ep, err := w.Connect(addr, nil)
		got <- result{ep, err}
	}()
	queued(w)
	drive(w)
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.ep
}

// Two workers connect to each other at the same moment, and one of them ends its endpoint by force while the other's
// connection request is in flight. UCX would answer that with an endpoint of its own, whose number differs from the
// one that the peer knows: builds with assertions, as distributions have them, abort the peer's process then.
func TestAbortDuringSimultaneousConnect(t *testing.T) {
	for _, set := range connSettings {
		if set.wcfg.Progress == Thread {
			continue // its token is never free
		}
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			wa, wb := newWorker(t, set.cfg, set.wcfg), newWorker(t, set.cfg, set.wcfg)
			if wa.progress() == Thread {
				return // as the library grants no other mode
			}
			addrs := map[*Worker]WorkerAddress{}
			for _, w := range []*Worker{wa, wb} {
				addr, err := w.Address()
				if err != nil {
					t.Fatal(err)
				}
				addrs[w] = addr
				if err := w.OpenAM(1); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				for _, dir := range [][2]*Worker{{wa, wb}, {wb, wa}} {
					first, second := dir[0], dir[1]
					hold(first)
					hold(second)
					gone := connectHeld(t, first, addrs[second])
					left := connectHeld(t, second, addrs[first])
					for _, ep := range []*Endpoint{gone, left} { // a message that names its sender needs UCX's request
						ep.StartSendAM(1, []byte("hello"), AMOptions{Reply: true})
						drive(ep.w)
					}
					aborted := make(chan struct{})
					go func() {
						gone.abort(errCanceled)
						close(aborted)
					}()
					queued(first) // before anything that the peer has sent is looked at
					first.drv.leave(false)
					second.drv.leave(false)
					_ = left.Flush(ctx)
					<-aborted
					_ = gone.Close()
					_ = left.Close()
				}
			}
		})
	}
}
