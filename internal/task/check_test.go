package task

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	_ "go.millstream.dev/internal/wire/arrowipc" // record batches
)

// Registration of unsupported types panics, and the message has the type, the path and this file.
func TestRegisterTypes(t *testing.T) {
	type inner struct{ Done chan int }
	type outer struct{ Rows []map[string]*inner }
	type loop struct {
		Next *loop
		F    func()
	}
	type hidden struct {
		Skip chan int `task:"-"`
		N    int
	}
	type private struct{ lock chan int }
	_ = private{}.lock
	bad := func(name string, register func(), want ...string) {
		t.Helper()
		text := panics(t, register)
		for _, w := range append(want, "task/check_test.go:", "cannot be sent to another process") {
			if !strings.Contains(text, w) {
				t.Errorf("%s: got %q, want %q in it", name, text, w)
			}
		}
	}
	bad("chan", func() {
		Register1("t.bad.chan", one[chan int])
	}, `"t.bad.chan"`, "parameter 1 (chan int)", "client.NewQueue")
	bad("func", func() {
		Register1("t.bad.func", one[func() int])
	}, "parameter 1 (func() int)", "register the function")
	bad("unsafe", func() {
		Register1("t.bad.unsafe", one[unsafe.Pointer])
	}, "parameter 1 (unsafe.Pointer)", "pass the bytes")
	bad("error", func() { Register1("t.bad.error", one[error]) }, "parameter 1 (error)", "use a concrete type")
	bad("reader", func() { Register1("t.bad.reader", one[[]io.Reader]) }, "has io.Reader at []")
	bad("deep", func() { Register1("t.bad.deep", one[outer]) }, "parameter 1 (task.outer) has chan int at "+
		".Rows[][].Done")
	bad("recursive", func() { Register1("t.bad.loop", one[*loop]) }, "has func() at .F")
	bad("arrow", func() {
		Register1("t.bad.arrow", one[arrow.Array])
	}, "parameter 1 (arrow.Array)", `import _ "go.millstream.dev/frame"`)
	bad("map key", func() { Register1("t.bad.key", one[map[fmt.Stringer]int]) }, "has fmt.Stringer at [key]")
	bad("second", func() {
		Register2("t.bad.second", func(context.Context, int, chan int) (int, error) { return 0, nil })
	}, "parameter 2 (chan int)")
	bad("result", func() { Register0("t.bad.result", func(context.Context) (chan int, error) { return nil, nil }) },
		"result (chan int)")
	bad("method", func() {
		RegisterMethod("t.bad.method", func(context.Context, chan int, error) (int, error) { return 0, nil })
	}, "parameter 1 (error)")

	// Types that can be encoded, or may stay in their process, are registered.
	Register1("t.good.any", one[any])
	Register1("t.good.anys", one[map[string]any])
	Register1("t.good.batch", one[arrow.RecordBatch])
	Register1("t.good.time", one[time.Time])
	Register1("t.good.hidden", one[hidden])
	Register1("t.good.private", one[*private])
	Register1("t.good.tree", one[tree])
	Register1("t.good.keys", one[map[struct{ X, Y int }]string])
	Register0("t.good.actor", func(context.Context) (*inner, error) { return nil, nil })
	RegisterMethod0("t.good.method", func(context.Context, *inner) (int, error) { return 0, nil })
}

func one[A any](context.Context, A) (int, error) { return 0, nil }

func TestShortPath(t *testing.T) {
	next := strings.Repeat(".Next", 100)
	for path, want := range map[string]string{
		"":                           "",
		".Rows[3].Lock":              ".Rows[3].Lock",
		next:                         ".Next.Next… (cycle)",
		".Head" + next:               ".Head.Next.Next… (cycle)",
		strings.Repeat(".A[0]", 90):  ".A[0].A[0]… (cycle)",
		".a.b.c.d.e.f.g.h.i.j.k.l.m": ".a.b.c.d.e.f….h.i.j.k.l.m",
	} {
		if got := shortPath(path); got != want {
			t.Errorf("path %.40s: got %s, want %s", path, got, want)
		}
	}
	type node struct{ Next *node }
	n := new(node)
	n.Next = n
	f := Register1("t.cycle", one[*node])
	var b Builder
	err := NewParam[*node]().Val(&b, n)
	_, rerr := EncodeValue(n)
	for what, err := range map[string]error{"argument": err, "result": rerr} {
		if err == nil || !strings.Contains(err.Error(), ".Next.Next… (cycle)") && what == "argument" ||
			len(err.Error()) > 250 ||
			!strings.Contains(err.Error(), "contains itself") {
			t.Errorf("%s of %s: got %v, want a short text about the cycle", what, f.Name(), err)
		}
	}
}

// Maps with every type of key are encoded and decoded, as arguments and as results.
func TestMapKeys(t *testing.T) {
	type point struct{ X, Y int }
	type named struct {
		Name string
		At   point
	}
	keyBothWays(t, map[point]string{{1, 2}: "a", {2, 1}: "b"})
	keyBothWays(t, map[named][]int{{"x", point{1, 2}}: {1}, {"y", point{}}: nil})
	keyBothWays(t, map[[2]point]bool{{{1, 2}, {3, 4}}: true})
	keyBothWays(t, map[[2]string]int{{"a", "b"}: 1})
	keyBothWays(t, map[bool]float64{true: 0.5})
	keyBothWays(t, map[time.Duration]string{time.Second: "s", time.Nanosecond: "ns"})
	keyBothWays(t, map[[16]byte]int{{1, 2, 3}: 4})
	keyBothWays(t, map[complex128]int{1i: 4})

	_, err := EncodeValue(map[any]int{point{1, 2}: 3})
	if err == nil || strings.Contains(err.Error(), "Python") || !strings.Contains(err.Error(), "concrete key type") {
		t.Errorf("struct in an any as key: got %v, want an error that asks for a concrete key type", err)
	}
}

func keyBothWays[M any](t *testing.T, m M) {
	t.Helper()
	s, err := EncodeValue(m)
	if err != nil {
		t.Errorf("%T as a result: %v", m, err)
		return
	}
	var got M
	if err := DecodeInto(s, &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%T as a result: got %v %v, want %v", m, got, err, m)
	}
	f := Register1("t.keys."+reflect.TypeFor[M]().String(), func(_ context.Context, in M) (bool, error) {
		return reflect.DeepEqual(in, m), nil
	})
	if v, err := runSpec(t, specOf(t, f, Val(m))); v != true || err != nil {
		t.Errorf("%T as an argument: got %v %v, want it as it was", m, v, err)
	}
}
