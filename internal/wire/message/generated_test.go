package message_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/task/taskid"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// fill sets every field of a message to a value that is not the zero value.
func fill(t testing.TB, m generated) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch p := f.Addr().Interface().(type) {
		case *message.Key:
			*p = taskid.NewKey("key of " + name)
		case *[]message.Key:
			*p = []message.Key{taskid.NewKey(name), "\x92\xa1x\x05"}
		case *string:
			*p = "text of " + name
		case *[]byte:
			*p = []byte("bytes of " + name)
		case *message.Raw:
			*p = message.Raw("\x81\xa1a\x91\x07")
		case *int64:
			*p = int64(1000 + i)
		case *[]int64:
			*p = []int64{5, -1, 1 << 40}
		case *bool:
			*p = true
		case *float64:
			*p = 1.5 + float64(i)
		case *message.Object:
			p.Value = &wire.Serialized{Header: []byte("header of " + name),
				Frames: []wire.Frame{wire.HeapFrame([]byte("frame of " + name))}}
		case *[]string:
			*p = []string{"text of " + name, ""}
		case *message.KeyList:
			*p = message.KeyList{Joined: []byte("\xa1a\x92\xa1x\x05"), N: 2, Set: true}
		case *message.SchedulerID:
			*p = message.SchedulerID{ID: "id of " + name, Epoch: 7}
		case *[]message.Shortage:
			*p = []message.Shortage{{Reason: "r", Text: "t", Tasks: 3, Keys: []message.Key{taskid.NewKey(name)},
				More: true}, {Text: "other", Keys: []message.Key{}}}
		case *message.StartStops:
			p.Parts = []message.Part{{Action: "transfer", Start: 1, Stop: 2}, {Action: "compute", Start: 2.5, Stop: 4}}
		default:
			t.Fatalf("%T.%s: the test knows no %s", m, name, f.Type())
		}
	}
}

// appended returns a message as it is written, a list of one.
func appended(m generated) *message.Buffer {
	b := &message.Buffer{Body: []byte{0x91}}
	m.Append(b)
	return b
}

// readAll reads a body of one message into m.
func readAll(body []byte, m generated) error {
	ops := message.ReadOps(body)
	if !ops.Next() {
		return fmt.Errorf("no message: %w", ops.Err())
	}
	if err := m.Read(&ops); err != nil {
		return err
	}
	ops.Next()
	return ops.Err()
}

// Every message is read as it was written, and has the op and the fields that its struct declares.
func TestRoundTrip(t *testing.T) {
	for _, c := range all {
		op, make := c.op, c.make
		want, got := make(), make()
		fill(t, want)
		fill(t, got) // what was there before is gone
		b := appended(want)
		if err := readAll(b.Body, got); err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		frames := &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b.Body)}, b.Frames...)}
		w, g := reflect.ValueOf(want).Elem(), reflect.ValueOf(got).Elem()
		decoded, err := msgpack.Decode(b.Body)
		if err != nil {
			t.Fatal(op, err)
		}
		written := decoded.([]any)[0].(msgpack.Map)
		if written.GetString("op") != op || len(written) != 1+w.NumField() {
			t.Errorf("%s: written as %v", op, written)
		}
		for i := range w.NumField() {
			name, _, _ := strings.Cut(w.Type().Field(i).Tag.Get("msg"), ",")
			if !written.Has(name) {
				t.Errorf("%s: %s is not written", op, name)
			}
			switch p := g.Field(i).Addr().Interface().(type) {
			case *message.Object:
				header := "header of " + w.Type().Field(i).Name
				if p.Frame == 0 || p.Pickled || string(frames.Frames[p.Frame].Bytes()) != header {
					t.Errorf("%s.%s: got %+v", op, name, p)
				}
			case *message.KeyList:
				if keys, err := message.ReadKeys(p.Raw); err != nil || len(keys) != 2 || keys[1] != "\x92\xa1x\x05" {
					t.Errorf("%s.%s: got %v, %v", op, name, keys, err)
				}
			case *message.StartStops:
				if p.Start != 2.5 || p.Stop != 4 || len(p.Raw) == 0 || p.Raw[0] != 0x92 {
					t.Errorf("%s.%s: got %+v", op, name, p)
				}
			default:
				if x, y := w.Field(i).Interface(), g.Field(i).Interface(); !reflect.DeepEqual(x, y) {
					t.Errorf("%s.%s: got %v, want %v", op, name, y, x)
				}
			}
		}
	}
}

// The empty form of a message is read as such: nil for what is not there, and no field that is to be omitted.
func TestEmpty(t *testing.T) {
	for _, c := range all {
		op, make := c.op, c.make
		want := make()
		body := appended(want).Body
		v, err := msgpack.Decode(body)
		if err != nil {
			// A key that is required has no form of none.
			if _, ok := reflect.TypeOf(want).Elem().FieldByName("Key"); !ok && !strings.Contains(op, "_") {
				t.Errorf("%s: %v", op, err)
			}
			continue
		}
		m := v.([]any)[0].(msgpack.Map)
		typ := reflect.TypeOf(want).Elem()
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("msg"), ",")
			if has := m.Has(name); has == strings.Contains(options, "omitempty") {
				t.Errorf("%s: %s is written: %v", op, name, has)
			}
		}
		got := make()
		fill(t, got)
		if err := readAll(body, got); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// A field of a wrong kind is an error that names the message and the field, and ends the walk.
func TestWrongKinds(t *testing.T) {
	wrong := map[reflect.Type][]any{
		reflect.TypeFor[message.Key]():   {msgpack.Map{}},
		reflect.TypeFor[[]message.Key](): {"a", []any{msgpack.Map{}}, msgpack.MapOf("__Set__", true)},
		reflect.TypeFor[string]():        {5, []byte("x")},
		reflect.TypeFor[[]byte]():        {"text", 1},
		reflect.TypeFor[int64]():         {"5", 1.5, uint64(1 << 63)},
		reflect.TypeFor[[]int64]():       {7, []any{"x"}},
		reflect.TypeFor[bool]():          {1, "true"},
		reflect.TypeFor[float64]():       {"1.5", true},
		reflect.TypeFor[message.Object](): {msgpack.MapOf("__Serialized__", 0),
			msgpack.MapOf("__Pickled__", 1<<40)},
		reflect.TypeFor[[]message.Shortage](): {7, []any{1}, []any{msgpack.MapOf("tasks", "x")},
			[]any{msgpack.MapOf("keys", 5)}, []any{msgpack.MapOf(1, 5)}},
		reflect.TypeFor[message.SchedulerID](): {"x", msgpack.MapOf("epoch", "1")},
		reflect.TypeFor[message.StartStops]():  {[]any{1}, []any{msgpack.MapOf("start", "x")}},
	}
	for _, c := range all {
		op, make := c.op, c.make
		typ := reflect.TypeOf(make()).Elem()
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("msg"), ",")
			if strings.Contains(options, "lenient") {
				continue
			}
			for _, bad := range wrong[typ.Field(i).Type] {
				ops := message.ReadOps(body(t, []any{msgpack.MapOf("op", op, name, bad)}))
				if !ops.Next() {
					t.Fatal(op, ops.Err())
				}
				err := make().Read(&ops)
				var e *message.Error
				if !errors.As(err, &e) || e.Op != op || e.Field != name ||
					!strings.HasPrefix(err.Error(), op+": field "+name+": ") || ops.Err() == nil || ops.Next() {
					t.Errorf("%s.%s = %v: got error %v", op, name, bad, err)
				}
			}
		}
	}
}

func TestOptions(t *testing.T) {
	read := func(m generated, fields ...any) error {
		return readAll(body(t, []any{msgpack.MapOf(fields...)}), m)
	}
	for _, c := range []struct {
		what   string
		m      generated
		fields []any
		want   string // of the error, "" for none
	}{
		{"a key is missing", new(message.ReportKey), []any{"op", "report-key"},
			"report-key: field key: missing or empty"},
		{"a key is nil", new(message.ReportKey), []any{"op", "report-key", "key", nil}, "report-key: field key: "},
		{"a run is negative", new(message.TaskFinished), []any{"op", "task-finished", "key", "k", "run_id", -1},
			"task-finished: field run_id: -1, want at least 0"},
		{"a number is a text", new(message.TaskFinished), []any{"op", "task-finished", "key", "k", "nbytes", "1"},
			"task-finished: field nbytes: want an int, got a string"},
		{"a number is nil", new(message.TaskFinished), []any{"op", "task-finished", "key", "k", "nbytes", nil}, ""},
		{"a name is not a text", new(message.KeepAlive), []any{"op", "keep-alive", 5, 6}, "keep-alive: "},
		{"other fields", new(message.KeepAlive), []any{"op", "keep-alive", "more", []any{1}}, ""},
	} {
		err := read(c.m, c.fields...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
	var long message.LongRunning
	if err := read(&long, "op", "long-running", "key", "k", "compute_duration", nil); err != nil ||
		long.ComputeDuration != -1 {
		t.Errorf("a duration of nil: got %v, %v, want -1", long.ComputeDuration, err)
	}
	if err := read(&long, "op", "long-running", "key", "k"); err != nil || long.ComputeDuration != -1 {
		t.Errorf("no duration: got %v, %v, want -1", long.ComputeDuration, err)
	}
	v, err := msgpack.Decode(appended(&long).Body)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := v.([]any)[0].(msgpack.Map).Get("compute_duration"); !ok || d != nil {
		t.Errorf("a duration of -1 is written as %v", d)
	}
	var steal message.StealResponse
	steal.Key = taskid.NewKey("k")
	if v, err = msgpack.Decode(appended(&steal).Body); err != nil {
		t.Fatal(err)
	}
	if s, ok := v.([]any)[0].(msgpack.Map).Get("state"); !ok || s != nil {
		t.Errorf("no state is written as %v", s)
	}
	end := message.Close{Reason: "before"}
	if err := read(&end, "op", "close", "reason", 5); err != nil || end.Reason != "" {
		t.Errorf("a reason that is no text: got %q, %v", end.Reason, err)
	}
	memory := message.KeyInMemory{Workers: []string{"before"}}
	if err := read(&memory, "op", "key-in-memory", "key", "k", "workers", msgpack.Map{}); err != nil ||
		len(memory.Workers) != 0 {
		t.Errorf("workers that are no list: got %q, %v", memory.Workers, err)
	}
	if err := read(&memory, "op", "key-in-memory", "key", "k", "workers", []any{5}); err == nil {
		t.Error("workers that are no texts: no error")
	}
	var keys message.FreeKeys
	if err := read(&keys, "op", "free-keys", "keys", msgpack.MapOf("__Set__", true, "as-list", []any{"a"}),
		"stimulus_id", "s"); err != nil || len(keys.Keys) != 1 || keys.Keys[0] != taskid.NewKey("a") ||
		keys.StimulusID != "s" {
		t.Errorf("a set of keys: got %+v, %v", keys, err)
	}
}

// Neither reading nor writing allocates, once lists have their memory.
func TestNoAllocation(t *testing.T) {
	for _, c := range all {
		op, make := c.op, c.make
		m, into := make(), make()
		fill(t, m)
		b := appended(m)
		body := append([]byte(nil), b.Body...)
		ops := message.ReadOps(body)
		if !ops.Next() || into.Read(&ops) != nil {
			t.Fatal(op)
		}
		if n := testing.AllocsPerRun(20, func() {
			ops = message.ReadOps(body)
			if !ops.Next() || into.Read(&ops) != nil {
				t.Fatal(op)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations to read it", op, n)
		}
		frames := b.Frames
		if n := testing.AllocsPerRun(20, func() {
			b.Reset(1)
			b.Frames = frames[:0]
			m.Append(b)
		}); n > 0 {
			t.Errorf("%s: %v allocations to write it", op, n)
		}
	}
}

// FuzzMessages reads messages of all ops, and writes what could be read.
func FuzzMessages(f *testing.F) {
	for _, c := range all {
		m := c.make()
		fill(f, m)
		f.Add(appended(m).Body)
	}
	f.Add(body(f, msgpack.MapOf("op", "update-graph", "expr_ser", msgpack.MapOf("__Serialized__", 1), "keys",
		msgpack.MapOf("__Set__", true, "as-list", []any{"k"}))))
	f.Fuzz(func(t *testing.T, b []byte) {
		ops := message.ReadOps(b)
		n := 0
		for ops.Next() {
			n++
			for _, c := range all {
				if c.op == string(ops.Op()) {
					fuzzRead(t, ops, c.make)
				}
			}
			if _, err := ops.Raw(); err != nil && ops.Next() {
				t.Fatalf("the walk goes on after %v", err)
			}
		}
		if n > len(b) {
			t.Fatalf("%d messages in %d bytes", n, len(b))
		}
	})
}

// fuzzRead reads the current message of a walk, and writes what could be read.
func fuzzRead(t *testing.T, ops message.Ops, make func() generated) {
	m := make()
	if err := m.Read(&ops); err != nil {
		if ops.Next() {
			t.Fatalf("the walk goes on after %v", err)
		}
		return
	}
	if u, ok := m.(*message.UpdateGraph); ok {
		_ = message.EachKey(u.Keys.Raw, func([]byte) error { return nil })
	}
	// Objects that are markers would need their frames; as they were read they are written again.
	again := appended(m)
	if err := readAll(again.Body, make()); err != nil {
		t.Fatalf("%+v: read, written as %x and not read again: %v", m, again.Body, err)
	}
}
