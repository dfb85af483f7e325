package ucx

import (
	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// handleEvent tells Go what happened inside UCX's callbacks. The caller holds the
// token: nothing here may block or call into UCX other than to free the event.
func (w *Worker) handleEvent(e *ucp.Event) {
	switch e.Type {
	case ucp.EventEPError:
		w.mu.Lock()
		ep := w.eps[e.ID]
		w.mu.Unlock()
		if ep != nil {
			ep.on(epstate.PeerFailed, Status(e.Status))
		}
		ucp.FreeEvent(w.drv.c, e)
	case ucp.EventConnRequest:
		w.mu.Lock()
		l := w.listeners[e.ID]
		w.mu.Unlock()
		if l != nil {
			l.deliver(e)
			return
		}
		ucp.FreeEvent(w.drv.c, e)
	case ucp.EventAM:
		w.deliverMessage(e)
	case ucp.EventAMOverflow:
		w.dropped(e)
		ucp.FreeEvent(w.drv.c, e)
	}
}

func dropOf(w *Worker, m *AM) obs.Drop { return obs.Drop{Worker: w.name(), ID: m.ID, Bytes: m.Len} }

// dropped reports a message that exceeded the worker's limit and fails its sender's
// endpoint, so that neither side believes it was delivered.
func (w *Worker) dropped(e *ucp.Event) {
	w.reportDrop(uint16(e.ID), int(e.Len))
	w.mu.Lock()
	ep := w.handles[e.ReplyEP]
	w.mu.Unlock()
	if ep != nil {
		ep.on(epstate.Overflow, ErrExceedsLimit)
	}
}

// reportDrop tells of a refused message: the hook of each, the log of the first and
// then of every doubling, as a peer could fill the disk otherwise. The token is held.
func (w *Worker) reportDrop(id uint16, n int) {
	if f := w.ctx.cfg.Events.MessageDropped; f != nil {
		f(obs.Drop{Worker: w.name(), ID: id, Bytes: n})
	}
	if w.drops++; w.drops&(w.drops-1) == 0 {
		logf("active message %d of %d bytes refused: more than %d bytes are queued on the worker "+
			"(WorkerConfig.MaxQueuedMessages); %d messages refused so far", id, n, w.cfg.MaxQueuedMessages, w.drops)
	}
}
