// Package feed passes what happens in a scheduler to the history of its dashboard: runs of tasks, transfers, pauses and
// failures.
package feed

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/peers"
)

// Feed passes what happens in a scheduler to a spans.Store. It collects spans in a batch without allocation and hands
// the batch over when it is full and with every tick. The loop owns it. A nil Feed, that of a scheduler without a
// dashboard, records nothing.
type Feed struct {
	store   *spans.Store
	writer  *writer
	find    func(address string) *peers.Worker
	batch   *spans.Batch
	n       int   // spans in the batch
	bytes   int   // of keys in the batch
	now     int64 // of the present turn, ns since 1970
	text    []byte
	totals  Totals
	pairs   pairs
	sampled time.Time
	before  Totals         // at the last sample
	failure *state.Failure // last recorded by KeyErred
}

// Totals are sums since the start of the scheduler.
type Totals struct {
	// Finished are runs of tasks, Failures events of package dashboard, Invalid spans with impossible times.
	Finished, Failures, Invalid int64
	// Moved are the bytes of incoming transfers by transport.
	Moved map[string]int64
}

// Bounds of one batch, and of the key of a span.
const (
	batchSpans = 2048
	batchBytes = 256 << 10
	maxKey     = 512
)

// Bounds of times that workers report: how long before now a span may start, and how long after now it may end, because
// clocks differ. skew is the difference of clocks from which times of a worker are corrected.
const (
	maxAge   = int64(30 * 24 * time.Hour)
	maxAhead = int64(5 * time.Second)
	skew     = 2.0 // seconds
)

// New returns a Feed for a store. find returns the registered worker at an address, nil for none.
func New(store *spans.Store, find func(address string) *peers.Worker) *Feed {
	return &Feed{store: store, writer: newWriter(store), find: find, batch: new(spans.Batch),
		totals: Totals{Moved: map[string]int64{}}, pairs: newPairs()}
}

// worker returns the ID of a worker in the store.
func (f *Feed) worker(w *peers.Worker) uint32 {
	if w.Recorded.ID == 0 {
		w.Recorded.ID = f.store.Worker(w.Address, clip(peers.NameText(w.Name), maxKey)) + 1
	}
	return w.Recorded.ID - 1
}

// prefix returns the ID of a prefix in the store.
func (f *Feed) prefix(p *state.Prefix) uint32 {
	if p == nil {
		return f.store.Prefix("(unknown)")
	}
	if p.Tag == 0 {
		p.Tag = f.store.Prefix(clip(p.Name(), maxKey)) + 1
	}
	return p.Tag - 1
}

// key returns a key as text. It is valid until the next call.
func (f *Feed) key(k task.Key) []byte {
	if n := strHeader(k); n > 0 {
		f.text = append(f.text[:0], k[n:min(len(k), n+maxKey)]...)
	} else {
		f.text = append(f.text[:0], clip(k.String(), maxKey)...) // a tuple
	}
	return f.text
}

// strHeader returns the length of the header of a msgpack string; 0 for another type. Keys are well-formed: the rest is
// the text.
func strHeader(k task.Key) int {
	switch {
	case len(k) == 0:
		return 0
	case k[0]&0xe0 == 0xa0:
		return 1
	case k[0] == 0xd9:
		return 2
	case k[0] == 0xda:
		return 3
	}
	return 0
}

// times converts times of a worker, in seconds since 1970, to ns. It reports false for those that cannot be.
func (f *Feed) times(w *peers.Worker, start, stop float64) (from, to int64, ok bool) {
	if w.Delay > skew || w.Delay < -skew {
		start, stop = start+w.Delay, stop+w.Delay
	}
	const most = math.MaxInt64 / 1e9
	if !(start > 0 && stop >= start && stop < most) { // false for NaN
		f.totals.Invalid++
		return 0, 0, false
	}
	from, to = int64(start*1e9), int64(stop*1e9)
	if from < f.now-maxAge || to > f.now+maxAhead {
		f.totals.Invalid++
		return 0, 0, false
	}
	return from, to, true
}

// Begin sets the time of the turn. It is called before the other methods.
func (f *Feed) Begin(now time.Time) {
	if f != nil {
		f.now = now.UnixNano()
	}
}

// Finished records a finished run of a task.
func (f *Feed) Finished(w *peers.Worker, m *message.TaskFinished, p *state.Prefix) {
	if f == nil {
		return
	}
	f.totals.Finished++
	key := f.key(m.Key)
	if raw := m.StartStops.Raw; len(raw) > 0 && raw[0] != 0x91 { // more than the computation
		f.parts(w, m.Thread, key, raw, m.Waited)
	} else if m.Waited > 0 {
		f.waited(w, m.Thread, key, m.StartStops.Start, m.Waited)
	}
	if from, to, ok := f.times(w, m.StartStops.Start, m.StartStops.Stop); ok {
		f.batch.Task(f.worker(w), m.Thread, key, f.prefix(p), from, to, max(m.NBytes, 0), 0)
		f.added(len(key))
	}
}

// Erred records a failed run of a task, and the failure.
func (f *Feed) Erred(w *peers.Worker, m *message.TaskErred, p *state.Prefix, retried bool) {
	if f == nil {
		return
	}
	f.totals.Finished++
	key := f.key(m.Key)
	if from, to, ok := f.times(w, m.StartStops.Start, m.StartStops.Stop); ok {
		f.batch.Task(f.worker(w), m.Thread, key, f.prefix(p), from, to, 0, spans.FlagError)
		f.added(len(key))
	}
	kind := "task-erred"
	if retried {
		kind = "task-retried"
	}
	f.Failure(dashboard.Failure{Kind: kind, Worker: w.Address, Key: string(key), Cause: clip(m.ExceptionText, maxText),
		Text: clip(m.TracebackText, maxText)})
}

// maxText bounds the texts of a failure in bytes.
const maxText = 4096

// Failure records a failure. Its texts are those of peers.
func (f *Feed) Failure(e dashboard.Failure) {
	if f == nil {
		return
	}
	f.totals.Failures++
	e.Cause, e.Text = clip(e.Cause, maxText), clip(e.Text, maxText)
	if b, err := json.Marshal(e); err == nil {
		f.writer.add(entry{at: time.Unix(0, f.now), name: dashboard.FailureEvent, json: b})
	}
}

// LostData records that the data of a key is lost.
func (f *Feed) LostData(now time.Time, a *state.Action) {
	if f == nil || a.Task == nil {
		return
	}
	f.Begin(now)
	f.Failure(dashboard.Failure{Kind: "lost-data", Key: clip(a.Task.Key().String(), maxKey),
		Cause: "no worker holds the data any more"})
}

// KeyErred records a failure that the scheduler has detected, once for all tasks that share it. Those of workers are
// recorded by Erred.
func (f *Feed) KeyErred(now time.Time, a *state.Action) {
	if f == nil || a.Failure == nil || a.Failure.Kind == state.TaskFailed || a.Failure == f.failure {
		return
	}
	f.failure = a.Failure
	f.Begin(now)
	f.Failure(dashboard.Failure{Kind: "task-erred", Worker: a.Failure.Worker,
		Key: clip(a.Failure.Key.String(), maxKey), Cause: a.Failure.ExceptionText, Text: a.Failure.Cause})
}

// Status records the status of a worker: a pause is a span from its start to its end.
func (f *Feed) Status(w *peers.Worker, paused bool) {
	if f == nil {
		return
	}
	switch since := w.Recorded.Paused; {
	case paused && since == 0:
		w.Recorded.Paused = f.now
	case !paused && since != 0:
		w.Recorded.Paused, w.Recorded.WasPaused = 0, [2]int64{since, f.now}
		f.batch.Paused(f.worker(w), since, f.now)
		f.added(0)
	}
}

// Lost records the end of a worker. An expected one is no failure.
func (f *Feed) Lost(w *peers.Worker, why string, expected bool, processing, lost int) {
	if f == nil {
		return
	}
	f.Status(w, false)
	if expected {
		return
	}
	text := ""
	if processing > 0 || lost > 0 {
		b, _ := json.Marshal(map[string]int{"processing": processing, "results": lost})
		text = "lost: " + string(b)
	}
	f.Failure(dashboard.Failure{Kind: "worker-lost", Worker: w.Address, Cause: why, Text: text})
}

// added counts a span, and hands a full batch over.
func (f *Feed) added(key int) {
	f.bytes += key
	if f.n++; f.n >= batchSpans || f.bytes >= batchBytes {
		f.Flush()
	}
}

// Flush hands the batch over to the store.
func (f *Feed) Flush() {
	if f != nil && f.n > 0 {
		f.batch = f.store.Put(f.batch)
		f.n, f.bytes = 0, 0
	}
}

// Close waits until everything is in the store, which the caller closes. The Feed must not be used afterwards.
func (f *Feed) Close() {
	if f != nil {
		f.writer.close()
	}
}

// Totals returns the sums since the start. The map is that of the Feed.
func (f *Feed) Totals() Totals {
	if f == nil {
		return Totals{}
	}
	return f.totals
}

// clip returns at most n bytes of a peer's text as valid UTF-8, without the memory of its message.
func clip(text string, n int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), n)], "\ufffd"))
}
