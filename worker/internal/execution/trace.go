package execution

import (
	"context"
	"time"

	"go.millstream.dev/internal/task/lifetrace"
)

// traceCompute reports the call of the function of a traced task and returns the context for it.
func (r *Run) traceCompute(ctx context.Context) context.Context {
	o := lifetrace.Get()
	if o == nil || r.annotations == nil {
		return ctx
	}
	trace := lifetrace.Of(r.annotations)
	if trace == "" {
		return ctx
	}
	ctx, r.span = o.Compute(ctx, trace, r.key.String(), r.name)
	return ctx
}

// traceRan reports a run of a traced task that has ended.
func (r *Run) traceRan(status string) {
	o := lifetrace.Get()
	if o == nil || r.annotations == nil {
		return
	}
	trace := lifetrace.Of(r.annotations)
	if trace == "" {
		return
	}
	run := lifetrace.Run{Key: r.key.String(), Function: r.name, Worker: r.p.cfg.Host.Worker, Status: status,
		Bytes: r.nbytes, Thread: r.thread, Ready: at(r.queued), TransferStart: at(r.moved.Start),
		TransferStop: at(r.moved.Stop), Start: at(r.start), Stop: at(r.stop), Stored: time.Now()}
	if r.err != nil {
		run.Error = r.err.Error()
	}
	o.Ran(trace, r.span, run)
}

// at converts ns since 1970; 0 is the zero time.
func at(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
