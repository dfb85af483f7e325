package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/proc/stdio"
)

// ProgressEvent is the progress of a set of futures.
type ProgressEvent struct {
	// Total is the number of futures. Finished, Failed and Canceled are the numbers of those that have ended.
	Total, Finished, Failed, Canceled int
	// Waiting is why some of the futures cannot run at present, as the scheduler reports it; "" if all can. See
	// Shortage.
	Waiting string
	// Elapsed is the time since the call of Progress.
	Elapsed time.Duration
	// Err is the error of the context, in the last event, if the context ended first.
	Err error
}

// Ended returns the number of futures that have ended.
func (e ProgressEvent) Ended() int { return e.Finished + e.Failed + e.Canceled }

// IsDone reports whether all futures have ended.
func (e ProgressEvent) IsDone() bool { return e.Ended() == e.Total }

// progressPause is the minimum time between two events.
const progressPause = 50 * time.Millisecond

// Progress returns events with the progress of futures: one immediately, one when some have ended or the reason why
// they wait has changed, at most twenty per second, and one when all have ended. The last event is done, or has the
// error of ctx.
func Progress(ctx context.Context, futures ...AnyFuture) iter.Seq[ProgressEvent] {
	return func(yield func(ProgressEvent) bool) {
		start := time.Now()
		e := ProgressEvent{Total: len(futures)}
		byClient := make(map[*Client][]*tracker.State)
		for _, f := range futures {
			c, s, err := f.state()
			if err != nil {
				e.Failed++
				continue
			}
			byClient[c] = append(byClient[c], s)
		}
		if !yield(e) || e.IsDone() {
			return
		}
		for c, keys := range byClient {
			w := c.tracker.Watch(keys)
			ok := progress(ctx, c.tracker, w, keys, &e, start, yield)
			w.Stop()
			if !ok {
				return
			}
		}
		runtime.KeepAlive(futures)
	}
}

// progress yields the events of the futures of one client. It reports whether the iteration continues.
func progress(ctx context.Context, t *tracker.Tracker, w *tracker.Watch, keys []*tracker.State, e *ProgressEvent,
	start time.Time, yield func(ProgressEvent) bool) bool {
	e.Waiting = t.WhyPending(keys...)
	if e.Waiting != "" && !yield(*e) {
		return false
	}
	for seen := 0; seen < len(keys); {
		news := t.ShortageNews()
		select {
		case <-w.News():
		case <-news:
		case <-ctx.Done():
			e.Elapsed, e.Err = time.Since(start), ctx.Err()
			yield(*e)
			return false
		}
		n, failed, canceled := w.Count(seen)
		seen += n
		e.Finished, e.Failed, e.Canceled = e.Finished+n-failed-canceled, e.Failed+failed, e.Canceled+canceled
		e.Waiting = t.WhyPending(keys...)
		e.Elapsed = time.Since(start)
		if !yield(*e) {
			return false
		}
		if seen < len(keys) {
			select {
			case <-time.After(progressPause):
			case <-ctx.Done():
			}
		}
	}
	return true
}

// linePause is the time between two lines of a progress bar that is not on a terminal.
const linePause = 10 * time.Second

// ProgressBar draws the progress of futures until all have ended, and returns the error of ctx if ctx ends first. On a
// terminal it redraws one line; to other writers it writes a line every 10 s and the last one. It writes the reason why
// no worker can run tasks on a separate line.
func ProgressBar(ctx context.Context, w io.Writer, futures ...AnyFuture) error {
	var last ProgressEvent
	terminal := stdio.IsTerminal(w)
	next := linePause
	shown := ""
	for e := range Progress(ctx, futures...) {
		last = e
		if e.Waiting != shown {
			if shown = e.Waiting; shown != "" {
				text := "waiting: " + shown + "\n"
				if terminal {
					text = "\r" + e.bar(40) + "\n" + text
				}
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
			}
		}
		var err error
		switch {
		case terminal:
			_, err = io.WriteString(w, "\r"+e.bar(40))
		case e.Elapsed >= next && !e.IsDone():
			next = e.Elapsed + linePause
			_, err = io.WriteString(w, e.bar(40)+"\n")
		}
		if err != nil {
			return err
		}
	}
	line := "\n"
	if !terminal {
		line = last.bar(40) + "\n"
	}
	if _, err := io.WriteString(w, line); err != nil {
		return err
	}
	return last.Err
}

// bar formats the event as one line.
func (e ProgressEvent) bar(width int) string {
	full := width
	percent := 100.0
	if e.Total > 0 {
		full = width * e.Ended() / e.Total
		percent = 100 * float64(e.Ended()) / float64(e.Total)
	}
	s := fmt.Sprintf("[%s%s] %5.1f %% | %d of %d | %.1f s", strings.Repeat("#", full), strings.Repeat(" ", width-full),
		percent, e.Ended(), e.Total, e.Elapsed.Seconds())
	if e.Failed > 0 {
		s += fmt.Sprintf(" | %d failed", e.Failed)
	}
	if e.Canceled > 0 {
		s += fmt.Sprintf(" | %d canceled", e.Canceled)
	}
	return s
}
