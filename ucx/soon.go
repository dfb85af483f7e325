package ucx

import (
	"context"
	"runtime"
	"time"

	"go.millstream.dev/ucx/internal/ucp"
)

// deviceSpin is how long a receive into device memory is looked for before the wait sleeps: the copy of some gigabytes
// within a GPU, of some hundred megabytes between two.
const deviceSpin = 4 * time.Millisecond

// lookFor drives until the request is done or the time is over, without sleep: for one whose end is near, whatever
// recent waits were like. It does not teach the worker's budget, as others wait for other things.
func (r *Request) lookFor(ctx context.Context, soon time.Duration) {
	w := r.w
	if soon <= 0 || w == nil || w.cfg.Progress != Adaptive || w.wakeFile != nil || runtime.NumCPU() == 1 {
		return
	}
	end := time.Now().Add(soon)
	over := func() bool { return r.state.Load() == reqDone || ctx.Err() != nil || !time.Now().Before(end) }
	for !over() {
		if !w.tryToken() {
			runtime.Gosched() // who has it drives for us too
			continue
		}
		// While it has the token it carries out what others submit, and tells them of their completions.
		for !over() {
			if res := ucp.Drive(w.c, nil, pollSlice); res&ucp.ResultWork != 0 {
				w.dispatch()
			}
			w.yieldToken()
		}
		w.leaveFast()
	}
}

// awaitSoon is awaitRequest for a request whose end is near.
func (w *Worker) awaitSoon(ctx context.Context, r *Request, soon time.Duration) error {
	r.lookFor(ctx, soon)
	return w.awaitRequest(ctx, r)
}
