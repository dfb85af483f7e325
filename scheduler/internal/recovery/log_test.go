package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/wire"
)

// open returns a log that writes to a journal in a folder, and the existing records.
func open(t *testing.T, h *hosttest.Host, dir string) (*Log, *journal.Journal, []journal.Record) {
	t.Helper()
	var before []journal.Record
	j, err := journal.Open(dir, journal.Options{}, joinRecords(func(r journal.Record) error {
		before = append(before, journal.Record{Kind: r.Kind, Data: bytes.Clone(r.Data)})
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	l := NewLog(h.Log, func(err error) { t.Errorf("journal: got error %v, want none", err) })
	l.SetJournal(j)
	return l, j, before
}

func keys(names ...string) (out []task.Key) {
	for _, n := range names {
		out = append(out, task.NewKey(n))
	}
	return out
}

// Records are read back, except for events during a pause.
func TestLog(t *testing.T) {
	h, dir := hosttest.New(t), t.TempDir()
	l, _, _ := open(t, h, dir)
	var w taskgraph.Writer
	w.Spec(task.NewKey("x"), []byte("MS\x01spec"), nil, taskgraph.None, 0)
	l.Client("c", true)
	l.Desire("c", keys("a", "b"))
	l.Pause()
	l.Desire("c", keys("not this"))
	if err := l.Change("op", msgpack.Map{}); err != nil {
		t.Error(err)
	}
	l.Graph("c", []byte{0x80}, w.Serialized())
	l.Resume()
	l.Release("c", keys("a"))
	l.Data("c", keys("d"))
	l.Worker("tcp://w", true)
	l.Worker("tcp://w", false)
	l.Graph("c", []byte{0x80}, w.Serialized())
	if err := l.Change("variable_set", msgpack.MapOf("name", "v")); err != nil {
		t.Error(err)
	}
	l.Client("c", false)
	if l.Position() == 0 || l.Epoch() != 1 || !l.Enabled() {
		t.Errorf("got position %d, epoch %d, want epoch 1", l.Position(), l.Epoch())
	}
	if err := l.Kept(t.Context(), l.Position()); err != nil {
		t.Error(err)
	}
	if err := l.Room(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, _, records := open(t, h, dir)
	defer l.Close()
	var got []string
	for _, r := range records {
		switch r.Kind {
		case recordGraph:
			client, raw, expr, err := readGraphRecord(r.Data)
			got = append(got, fmt.Sprint("graph ", client, len(raw), len(expr.Frames) > 0, err))
		case recordOp:
			op, args, err := readOpRecord(r.Data)
			got = append(got, fmt.Sprint(op, args.GetString("name"), err))
		default:
			name, keys, err := readNameRecord(r.Data)
			got = append(got, fmt.Sprint(r.Kind, name, len(keys), err))
		}
	}
	want := "1 c 0 <nil>, 3 c 2 <nil>, 4 c 1 <nil>, 9 c 1 <nil>, 6 tcp://w 0 <nil>, 7 tcp://w 0 <nil>, graph c1 " +
		"true <nil>, variable_setv <nil>, 2 c 0 <nil>"
	if text := strings.Join(got, ", "); strings.ReplaceAll(text, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if l.Epoch() != 2 {
		t.Errorf("epoch: got %d, want 2", l.Epoch())
	}
}

// Without a journal nothing is recorded, and nothing waits.
func TestNoJournal(t *testing.T) {
	l := NewLog(hosttest.New(t).Log, nil)
	l.Client("c", true)
	l.Graph("c", nil, nil)
	if err := l.Change("op", msgpack.MapOf("x", func() {})); err != nil {
		t.Errorf("Change: got error %v, want none", err)
	}
	if l.Enabled() || l.Position() != 0 || l.Epoch() != 0 || l.Journal() != nil {
		t.Error("log without a journal: got one")
	}
	if err := errors.Join(l.Kept(t.Context(), 7), l.Room(t.Context()), l.Close()); err != nil {
		t.Error(err)
	}
}

// A change that could not be read back is rejected, and its record is not written.
func TestChangeRefused(t *testing.T) {
	h := hosttest.New(t)
	l, j, _ := open(t, h, t.TempDir())
	defer l.Close()
	deep := any("x")
	for range 2000 {
		deep = []any{deep}
	}
	before := j.Stats().Records
	if err := l.Change("set", msgpack.MapOf("v", deep)); err == nil ||
		!strings.Contains(err.Error(), "value not encodable in the journal") {
		t.Errorf("got %v, want an error", err)
	}
	l.Note("set", msgpack.MapOf("v", deep))
	if !h.Logged("change missing in the journal") || j.Stats().Records != before {
		t.Errorf("records: got %d, want %d", j.Stats().Records, before)
	}
}

// A journal that cannot be written is reported, unless it was closed or the caller was canceled.
func TestCommitFails(t *testing.T) {
	h := hosttest.New(t)
	l, j, _ := open(t, h, t.TempDir())
	failed := 0
	l.failed = func(error) { failed++ }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Commit(ctx, 1000); err == nil || failed != 0 {
		t.Errorf("canceled caller: got error %v, %d failures", err, failed)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), 1000); !errors.Is(err, journal.ErrClosed) || failed != 0 {
		t.Errorf("closed journal: got error %v, %d failures", err, failed)
	}
	if l.Client("c", true); failed != 1 {
		t.Errorf("record for a closed journal: got %d failures, want 1", failed)
	}
}

// A record of any size is split to fit and joined again; one whose end is missing is left out.
func TestParts(t *testing.T) {
	for _, limit := range []int{1, 3, 10, 100} {
		for size := range 25 {
			data := bytes.Repeat([]byte{byte(size)}, size)
			var records []journal.Record
			add := func(kind journal.Kind, parts ...[]byte) error {
				r := journal.Record{Kind: kind, Data: bytes.Join(parts, nil)}
				if len(r.Data) > limit && kind != recordPartEnd {
					t.Errorf("record of %d bytes, want at most %d", len(r.Data), limit)
				}
				records = append(records, r)
				return nil
			}
			if err := splitRecord(limit, recordOp, [][]byte{data[:size/2], data[size/2:]}, add); err != nil {
				t.Fatal(err)
			}
			var whole []journal.Record
			join := joinRecords(func(r journal.Record) error { whole = append(whole, r); return nil })
			for _, r := range append([]journal.Record{{Kind: recordPart, Data: []byte("lost")}, {Kind: recordClient}},
				records...) {
				if err := join(r); err != nil {
					t.Fatal(err)
				}
			}
			if len(whole) != 2 || whole[1].Kind != recordOp || !bytes.Equal(whole[1].Data, data) {
				t.Errorf("limit %d, size %d: got %v", limit, size, whole)
			}
		}
	}
	if err := joinRecords(nil)(journal.Record{Kind: recordPartEnd}); !errors.Is(err, ErrRecord) {
		t.Errorf("an end without a kind: got %v, want ErrRecord", err)
	}
	full := errors.New("full")
	if err := splitRecord(1, recordOp, [][]byte{{1, 2}},
		func(journal.Kind, ...[]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

// Truncated records, or those with excess bytes, are rejected.
func TestBrokenRecords(t *testing.T) {
	var w taskgraph.Writer
	w.Spec(task.NewKey("x"), []byte("MS\x01spec"), nil, taskgraph.None, 0)
	graph := bytes.Join(graphParts("c", []byte("raw"), w.Serialized()), nil)
	parts, err := opParts("op", msgpack.MapOf("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	op := bytes.Join(parts, nil)
	name := appendNameRecord(nil, "c", keys("x"))
	for what, c := range map[string]struct {
		data []byte
		read func([]byte) error
	}{
		"graph": {graph, func(b []byte) error { _, _, _, err := readGraphRecord(b); return err }},
		"op":    {op, func(b []byte) error { _, _, err := readOpRecord(b); return err }},
		"name":  {name, func(b []byte) error { _, _, err := readNameRecord(b); return err }},
	} {
		if err := c.read(c.data); err != nil {
			t.Errorf("%s: got error %v, want none", what, err)
		}
		for i := range c.data {
			if err := c.read(c.data[:i]); err == nil {
				t.Errorf("%s: %d of %d bytes: got no error", what, i, len(c.data))
			}
		}
		if err := c.read(append(bytes.Clone(c.data), 0)); err == nil {
			t.Errorf("%s with an additional byte: got no error", what)
		}
	}
	if _, err := opParts("op", msgpack.MapOf("a", func() {})); err == nil {
		t.Error("function as a value: got no error")
	}
	if _, err := graphKeys([]byte{0x80}); err == nil {
		t.Error("keys of an empty message: got no error")
	}
	_ = wire.EncodeOptions{}
}
