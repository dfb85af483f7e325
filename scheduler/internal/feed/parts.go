package feed

import (
	"strings"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// maxParts bounds the parts of one task, and maxPartBytes their encoded form.
const (
	maxParts     = 64
	maxPartBytes = 1 << 16
)

// part is one action of a task. It borrows from its message.
type part struct {
	action, source []byte
	start, stop    float64
}

// parts records the actions of a task other than its computation, before it: threads that were idle meanwhile have
// waited. Millstream workers report transfers with their heartbeats; those of Dask name the peer in source.
func (f *Feed) parts(w *peers.Worker, thread int64, key, raw []byte, waited float64) {
	if len(raw) > maxPartBytes {
		return
	}
	r := msgpack.NewReader(raw)
	n, err := r.ReadArrayLen()
	for i := 0; err == nil && i < min(n, maxParts); i++ {
		var p part
		if p, err = readPart(&r); err != nil {
			return
		}
		if waited > 0 && string(p.action) != "transfer" {
			f.waited(w, thread, key, p.start, waited)
			waited = 0
		}
		f.part(w, thread, key, &p)
	}
}

func (f *Feed) part(w *peers.Worker, thread int64, key []byte, p *part) {
	action := uint8(0)
	switch string(p.action) {
	case "transfer":
		if from, to, ok := f.times(w, p.start, p.stop); ok {
			f.fetched(w, p, from, to)
			f.wait(w, thread, key, spans.Waiting, from, to)
		}
		return
	case "disk-read":
		action = spans.DiskRead
	case "disk-write":
		if from, to, ok := f.times(w, p.start, p.stop); ok {
			f.batch.Disk(f.worker(w), key, true, 0, from, to)
			f.added(len(key))
		}
		return
	case "deserialize":
		action = spans.Deserialize
	default: // compute
		return
	}
	if from, to, ok := f.times(w, p.start, p.stop); ok {
		f.batch.Part(f.worker(w), thread, key, action, from, to)
		f.added(len(key))
	}
}

// wait records that a task could not start. One that could not while the worker was paused has waited for memory.
func (f *Feed) wait(w *peers.Worker, thread int64, key []byte, reason uint8, from, to int64) {
	paused := w.Recorded.WasPaused
	if reason == spans.WaitingSlot && min(to, paused[1])-max(from, paused[0]) > (to-from)/2 {
		reason = spans.Paused
	}
	f.batch.Wait(f.worker(w), thread, key, reason, from, to)
	f.added(len(key))
}

// waited records that a task was ready for some seconds before its thread began.
func (f *Feed) waited(w *peers.Worker, thread int64, key []byte, begin, seconds float64) {
	if from, to, ok := f.times(w, begin-seconds, begin); ok {
		f.wait(w, thread, key, spans.WaitingSlot, from, to)
	}
}

// fetched records a transfer that a Dask worker reports with the task that caused it.
func (f *Feed) fetched(w *peers.Worker, p *part, from, to int64) {
	if len(p.source) == 0 || len(p.source) > maxKey {
		return
	}
	peer := string(p.source)
	scheme, _, _ := strings.Cut(peer, "://")
	transport := f.transport(scheme)
	f.batch.Transfer(f.worker(w), f.peer(peer), true, transport.id, 0, 0, from, to)
	f.added(0)
	f.pairs.add(peer, w.Address, transport.name, transport.name, 0, float64(to-from)/1e9)
}

// readPart reads one action: a map of action, start, stop and, for transfers, source.
func readPart(r *msgpack.Reader) (p part, err error) {
	fields, err := r.ReadMapLen()
	for range fields {
		if err != nil {
			return p, err
		}
		var name []byte
		if name, err = r.ReadName(); err != nil {
			return p, err
		}
		switch string(name) {
		case "action":
			p.action, err = readText(r)
		case "source":
			p.source, err = readText(r)
		case "start":
			p.start, err = readNumber(r)
		case "stop":
			p.stop, err = readNumber(r)
		default:
			err = r.Skip()
		}
	}
	return p, err
}

// readText reads a string, and skips a value of another type.
func readText(r *msgpack.Reader) ([]byte, error) {
	if r.Kind() != msgpack.Str {
		return nil, r.Skip()
	}
	return r.ReadStringBytes()
}

// readNumber reads a number, and skips a value of another type.
func readNumber(r *msgpack.Reader) (float64, error) {
	if k := r.Kind(); k != msgpack.Float && k != msgpack.Int {
		return 0, r.Skip()
	}
	return r.ReadFloat()
}
