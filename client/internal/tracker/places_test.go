package tracker

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// whoHas encodes the reply to who_has.
func whoHas(t testing.TB, pairs ...any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, wire.NewDict(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPlaces(t *testing.T) {
	c := empty(t)
	keys := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c"), submit(t, c, "d")}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w1", "w2"}),
		wire.NewDict("op", "key-in-memory", "key", "b", "workers", []any{"w2"}),
		wire.NewDict("op", "key-in-memory", "key", "c", "workers", nil))
	if got := c.Place(keys[0]); got != "w1" {
		t.Errorf("a is at %q, want w1", got)
	}
	if got := c.Place(keys[2]); got != "" {
		t.Errorf("c is at %q, want nowhere", got)
	}
	byWorker, unknown := c.ByWorker(keys, []int{0, 1, 2, 3})
	if !reflect.DeepEqual(byWorker, map[string][]int{"w1": {0}, "w2": {1}}) ||
		!reflect.DeepEqual(unknown, []int{2, 3}) {
		t.Errorf("by worker %v, unknown %v, want w1: 0, w2: 1 and 2, 3", byWorker, unknown)
	}
	if err := c.SetPlaces(whoHas(t, "c", []any{"w2", "w3"}, "d", []any{}, "stranger", []any{"w9"})); err != nil {
		t.Fatal(err)
	}
	byWorker, unknown = c.ByWorker(keys, []int{3, 2, 1})
	if !reflect.DeepEqual(byWorker, map[string][]int{"w2": {2, 1}}) || !reflect.DeepEqual(unknown, []int{3}) {
		t.Errorf("by worker %v, unknown %v, want w2: 2, 1 and 3", byWorker, unknown)
	}
	if !c.ForgetPlaces(keys, []int{1, 3}) {
		t.Error("ForgetPlaces: got false, want true: b was at w2")
	}
	if c.ForgetPlaces(keys, []int{1, 3}) {
		t.Error("ForgetPlaces of forgotten places: got true, want false")
	}
	if got := c.Place(keys[0]); got != "w1" {
		t.Errorf("a is at %q after others were forgotten, want w1", got)
	}
}

// Results that the scheduler sent need not be fetched, as long as their keys are finished.
func TestValues(t *testing.T) {
	c := empty(t)
	keys := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c")}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w1"}, "value", 7),
		wire.NewDict("op", "key-in-memory", "key", "b", "workers", []any{"w1"}),
		wire.NewDict("op", "key-in-memory", "key", "c", "workers", []any{"w1"}, "value", "text"))
	values := func() (got map[int]string, rest []int) {
		t.Helper()
		got = map[int]string{}
		rest, err := c.Values(keys, []int{0, 1, 2}, func(i int, raw []byte) error {
			got[i] = string(raw)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got, rest
	}
	got, rest := values()
	want := map[int]string{0: "\x07", 2: "\xa4text"}
	if !reflect.DeepEqual(got, want) || !slices.Equal(rest, []int{1}) {
		t.Errorf("values: got %v and %v, want %v and [1]", got, rest, want)
	}
	receive(t, c, wire.NewDict("op", "lost-data", "key", "a"))
	if got, rest = values(); len(got) != 1 || !slices.Equal(rest, []int{0, 1}) {
		t.Errorf("values after a loss: got %v and %v, want one and [0 1]", got, rest)
	}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w2"}))
	if got, rest = values(); len(got) != 1 || !slices.Equal(rest, []int{0, 1}) {
		t.Errorf("values after a report without one: got %v and %v, want one and [0 1]", got, rest)
	}
	failure := errors.New("no")
	if _, err := c.Values(keys, []int{2}, func(int, []byte) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("failing function: got %v, want %v", err, failure)
	}
}

func TestBadPlaces(t *testing.T) {
	c := empty(t)
	submit(t, c, "a")
	for name, body := range map[string][]byte{
		"no map":      {0x90},
		"cut off":     {0x81},
		"no key":      {0x81, 0xc0, 0x90},
		"no text":     append([]byte{0x81}, append([]byte(k("a")), 0x91, 0xc0)...),
		"list is cut": append([]byte{0x81}, append([]byte(k("a")), 0x92, 0xa1)...),
	} {
		if err := c.SetPlaces(body); err == nil || !strings.HasPrefix(err.Error(), "client: reply to who_has: ") {
			t.Errorf("%s: the error is %v, want one about who_has", name, err)
		}
	}
}

func TestRecheck(t *testing.T) {
	c := empty(t)
	keys := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c")}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w1"}),
		wire.NewDict("op", "task-erred", "key", "b", "exception", "no", "traceback", nil))
	sent(t, c)
	c.Recheck(keys, []int{0, 1})
	wantStatus(t, c, keys[0], Lost)
	wantStatus(t, c, keys[1], Failed)
	m := sent(t, c)
	wantOps(t, m, "report-key", "report-key")
	if m[0].GetString("key") != "a" || m[1].GetString("key") != "b" {
		t.Errorf("got a request about %v, want a and b", m)
	}
	if got := c.Place(keys[0]); got != "" {
		t.Errorf("a lost result is at %q", got)
	}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w2"}))
	wantStatus(t, c, keys[0], Finished)
	if got := c.Place(keys[0]); got != "w2" {
		t.Errorf("a is at %q, want w2", got)
	}
}
