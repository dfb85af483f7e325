package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/wire"
)

type point struct {
	X, Y int
}

type celsius float64

type tree struct {
	Name string
	Kids []*tree
	Note *string
	Tags map[string]celsius
	When time.Time
	For  time.Duration
	Raw  []byte
	Any  any
	Pair [2]point
	Addr netip.Addr
	C    complex128
	Skip chan int `task:"-"`
	In   Ref[int]
}

var (
	incF  = Register1("t.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	joinF = Register2("t.join", func(_ context.Context, a string, b []string) (string, error) {
		return a + strings.Join(b, ","), nil
	})
	treeF = Register1("t.tree", func(_ context.Context, t tree) (tree, error) { return t, nil })
	anyF  = Register1("t.any", func(_ context.Context, v any) (any, error) { return v, nil })
	mapF  = Register1("t.map", func(_ context.Context, m map[string]point) (int, error) {
		return m["a"].X + m["b"].Y, nil
	})
	panicF = Register0("t.panic", func(context.Context) (int, error) { panic(errors.New("oh")) })
	errF   = Register3("t.err", func(_ context.Context, a, b, c int) (int, error) {
		return 0, fmt.Errorf("%d %d %d", a, b, c)
	})
	fourF = Register4("t.four", func(_ context.Context, a int8, b uint16, c float32, d bool) (string, error) {
		return fmt.Sprint(a, b, c, d), nil
	})
)

// specOf encodes a call.
func specOf[A any](t testing.TB, f *Func, a Arg[A]) []byte {
	t.Helper()
	var b Builder
	b.Begin(f)
	if err := NewParam[A]().Arg(&b, a); err != nil {
		t.Fatal(err)
	}
	return b.Append(nil)
}

func runSpec(t testing.TB, spec []byte, deps ...*Value) (any, error) {
	t.Helper()
	c, err := ParseCall(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c.Run(context.Background(), deps)
}

// through passes a value as an argument to a function that returns it.
func through[T any](t *testing.T, v T) T {
	t.Helper()
	var b Builder
	b.Begin(incF)
	c := codecFor[T]()
	if err := c.append(&b, v); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	call := Call{Func: incF, args: b.args}
	r := call.reader(nil)
	out, err := c.read(&r)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	if r.Remaining() != 0 {
		t.Errorf("%T: %d bytes are left", v, r.Remaining())
	}
	return out
}

// same passes a value through and compares.
func same[T any](t *testing.T, v T) {
	t.Helper()
	if got := through(t, v); !reflect.DeepEqual(got, v) {
		t.Errorf("%T as an argument: %+v, want %+v", v, got, v)
	}
}

func sampleTree() tree {
	note := "n"
	return tree{
		Name: "root \xff", Kids: []*tree{{Name: "kid"}, nil}, Note: &note, Tags: map[string]celsius{"b": 2, "a": -1.5},
		When: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC), For: 1234567, Raw: []byte{0, 1}, Any: []point{{1, 2}},
		Pair: [2]point{{1, 2}, {3, 4}}, Addr: netip.MustParseAddr("10.0.0.1"), C: complex(1, -2), In: RefOf(5),
	}
}

type nothing struct {
	Left int `task:"-"`
}

// Values without bytes can be elements of containers, also at the end of the input.
func TestElementsWithoutBytes(t *testing.T) {
	for _, v := range []any{
		map[struct{}]int{{}: 7}, map[struct{}]struct{}{{}: {}}, map[int]struct{}{1: {}, 2: {}, 3: {}},
		map[string]struct{}{"": {}, "a": {}},
		[]struct{}{{}, {}, {}}, []nothing{{}, {}}, [3]struct{}{}, [][0]int{{}, {}}, map[[0]int]bool{{}: true},
		map[nothing][]struct{}{{}: {{}, {}}},
		map[int][2]struct{}{1: {}, 2: {}}, map[struct{}]int{}, []struct{}{}, []struct{}(nil),
	} {
		p := planOf(reflect.TypeOf(v))
		var b Builder
		b.Begin(incF)
		if err := p.append(&b, reflect.ValueOf(v)); err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		call := Call{Func: incF, args: b.args}
		r := call.reader(nil)
		got := reflect.New(reflect.TypeOf(v)).Elem()
		if err := p.read(&r, got); err != nil || r.Remaining() != 0 || !reflect.DeepEqual(got.Interface(), v) {
			t.Errorf("%T as an argument: got %+v, %v, %d bytes left, want %+v", v, got, err, r.Remaining(), v)
		}
	}
	sameSent(t, map[int]struct{}{1: {}, 2: {}})
	sameSent(t, map[struct{}]int{{}: 7})
	sameSent(t, []struct{}{{}, {}})
	sameSent(t, map[string]struct{}{"a": {}, "b": {}})
}

func TestArgumentsThroughCodec(t *testing.T) {
	same(t, true)
	same(t, math.MinInt64)
	same(t, int8(-128))
	same(t, int16(300))
	same(t, int32(math.MinInt32))
	same(t, int64(math.MaxInt64))
	same(t, uint(7))
	same(t, uint8(255))
	same(t, uint16(65535))
	same(t, uint32(1<<31))
	same(t, uint64(math.MaxUint64))
	same(t, float32(1.5))
	if v := through(t, math.NaN()); !math.IsNaN(v) {
		t.Errorf("NaN became %g", v)
	}
	same(t, math.Inf(-1))
	same(t, "text \x00 \xff")
	same(t, []byte(nil))
	same(t, []byte{})
	same(t, []byte("x"))
	same(t, []int{1, -2})
	same(t, []int(nil))
	same(t, []int{})
	same(t, []int64{math.MinInt64})
	same(t, []int32{1})
	same(t, []float64{1.5, math.Inf(1)})
	same(t, []float32{1.5})
	same(t, []string{"a", ""})
	same(t, []bool{true})
	same(t, map[int]string{3: "c", 1: "a"})
	same(t, map[string]any{"x": 1, "y": []any{"z", nil, 2.5}, "p": point{1, 2}})
	same(t, point{1, -1})
	same(t, celsius(21.5))
	same(t, time.Second)
	same(t, []*point{{1, 2}, nil})
	same(t, any(nil))
	same(t, sampleTree())
	a := through(t, wire.NewNDArray([]float64{1, 2, 3, 4}, 2, 2))
	if v, err := wire.Elements[float64](a); err != nil || !slices.Equal(v, []float64{1, 2, 3, 4}) || len(a.Shape) != 2 {
		t.Errorf("an array: %v, %v", a, err)
	}
	same(t, wire.NewDict("a", int64(1)))
	same(t, wire.Tuple{int64(1), "x"})
}

func TestCalls(t *testing.T) {
	if v, err := runSpec(t, specOf(t, incF, Val(41))); v != 42 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	var b Builder
	b.Begin(joinF)
	ref := RefTo[string]("\xa1k")
	if err := errors.Join(NewParam[string]().Arg(&b, ref), NewParam[[]string]().Arg(&b,
		List[string](Val("x"), ref, RefTo[string]("\xa1l")))); err != nil {
		t.Fatal(err)
	}
	spec := b.Append(nil)
	info, err := ReadSpecInfo(spec)
	if err != nil || info.Name != "t.join" || !reflect.DeepEqual(info.Deps, []Key{NewKey("k"), NewKey("l")}) {
		t.Fatalf("%+v, %v", info, err)
	}
	if v, err := runSpec(t, spec, NewValue("K"), NewValue("L")); v != "Kx,K,L" || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	got,
		err := runSpec(t, specOf(t, mapF, Dict(map[string]Arg[point]{"a": Val(point{1, 2}),
		"b": RefTo[point]("\xa1p")})), NewValue(point{0, 5}))
	if got != 6 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	deep := sampleTree()
	deep.Kids[0].In = RefTo[int](NewKey("deep"))
	v, err := runSpec(t, specOf(t, treeF, Val(deep)), NewValue(99))
	if err != nil || v.(tree).Kids[0].In.Get() != 99 || v.(tree).Kids[0].In.Key() != "" {
		t.Errorf("nested reference: got %v, %v", v, err)
	}
	b.Begin(errF)
	p := NewParam[int]()
	if err := errors.Join(p.Val(&b, 1), p.Val(&b, 2), p.Val(&b, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := runSpec(t, b.Append(nil)); err == nil || err.Error() != "1 2 3" {
		t.Error(err)
	}
	b.Begin(fourF)
	if err := errors.Join(NewParam[int8]().Val(&b, -1), NewParam[uint16]().Val(&b, 2), NewParam[float32]().Val(&b, 2.5),
		NewParam[bool]().Val(&b, true)); err != nil {
		t.Fatal(err)
	}
	if v, err := runSpec(t, b.Append(nil)); v != "-1 2 2.5 true" || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	b.Begin(panicF)
	_, err = runSpec(t, b.Append(nil))
	var pe *PanicError
	if !errors.As(err, &pe) || len(pe.Stack) == 0 || errors.Unwrap(err).Error() != "oh" {
		t.Errorf("got %v, want a PanicError with a stack", err)
	}
	if v, err := runSpec(t, specOf(t, anyF, Val[any](point{1, 2}))); v != (point{1, 2}) || err != nil {
		t.Errorf("%v, %v", v, err)
	}
}

func TestManyReferences(t *testing.T) {
	var args []Arg[string]
	var deps []*Value
	for i := range 300 {
		k := NewKey(fmt.Sprint("k", i))
		args = append(args, RefTo[string](k), RefTo[string](k))
		deps = append(deps, NewValue("x"))
	}
	var b Builder
	for range 2 { // the index of the builder is reset for each call
		b.Begin(joinF)
		if err := errors.Join(NewParam[string]().Arg(&b, Val("")),
			NewParam[[]string]().Arg(&b, List(args...))); err != nil {
			t.Fatal(err)
		}
		if len(b.Deps()) != 300 {
			t.Fatalf("%d dependencies, want 300", len(b.Deps()))
		}
	}
	v, err := runSpec(t, b.Append(nil), deps...)
	if err != nil || strings.Count(v.(string), "x") != 600 {
		t.Errorf("%v, %v", v, err)
	}
}

func TestCallMistakes(t *testing.T) {
	good := specOf(t, incF, Val(1))
	for _, c := range []struct {
		name string
		spec []byte
		want string
	}{
		{"empty", nil, "not a call"},
		{"pickle", []byte{0x80, 4, 'N', '.'}, "not a call"},
		{"version", append([]byte("MS\x09"), good[3:]...), "version"},
		{"unknown", []byte("MS\x01\xa5t.inx\x90\x01\x00\x01"), `"t.inx" is not registered`},
		{"few", []byte("MS\x01\xa5t.inc\x90\x00"), "0 arguments, want 1"},
		{"cut", good[:7], ""},
	} {
		if _, err := ParseCall(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ParseCall([]byte("MS\x01\xa5t.inx\x90\x01\x00\x01")); !errors.Is(err, ErrUnknownFunc) {
		t.Errorf("unknown function: got %v, want ErrUnknownFunc", err)
	}
	_, err := runSpec(t, specOf(t, incF, RefTo[int](NewKey("k"))), NewValue("text"))
	var te *TypeError
	if !errors.As(err, &te) || te.Func != "t.inc" || te.Want != "int" {
		t.Errorf("result of another type: got %v, want a TypeError of t.inc", err)
	}
	_, err = runSpec(t, specOf(t, incF, RefTo[int](NewKey("k"))))
	if err == nil {
		t.Error("missing dependency: got nil, want an error")
	}
	var b Builder
	b.Begin(incF)
	err = NewParam[chan int]().Val(&b, make(chan int))
	var ee *EncodeError
	if !errors.As(err, &ee) {
		t.Errorf("channel: got %v, want an EncodeError", err)
	}
	type hidden struct{ n int }
	if err := codecFor[hidden]().append(&b, hidden{1}); err == nil || !strings.Contains(err.Error(), ".n") {
		t.Errorf("unexported field: got %v, want an error about .n", err)
	}
	self := &tree{}
	self.Kids = []*tree{self}
	if err := codecFor[*tree]().append(&b, self); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("value that contains itself: got %v, want an error", err)
	}
	type unknown struct{ A int }
	if err := codecFor[any]().append(&b, unknown{}); err == nil || !strings.Contains(err.Error(), "RegisterType") {
		t.Errorf("unregistered type: got %v, want an EncodeError", err)
	}
	RegisterType[unknown]()
	same[any](t, unknown{3})
}

func TestEqualValuesEqualSpecs(t *testing.T) {
	m := map[string]celsius{}
	for i := range 50 {
		m[fmt.Sprint(i)] = celsius(i)
	}
	first := specOf(t, treeF, Val(tree{Tags: m}))
	for range 10 {
		if string(specOf(t, treeF, Val(tree{Tags: m}))) != string(first) {
			t.Fatal("a map is not always encoded in the same order")
		}
	}
}

func FuzzCall(f *testing.F) {
	f.Add(specOf(f, incF, Val(1)))
	f.Add(specOf(f, treeF, Val(sampleTree())))
	f.Add(specOf(f, anyF, Val[any](map[string]any{"a": []any{1, "x", point{1, 2}}})))
	f.Add(specOf(f, mapF, Dict(map[string]Arg[point]{"a": RefTo[point]("\xa1p")})))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCall(b)
		if err != nil {
			return
		}
		if strings.HasPrefix(c.Func.Name(), "t.panic") {
			return
		}
		deps := make([]*Value, len(c.Deps))
		for i := range deps {
			deps[i] = NewValue(7)
		}
		_, err = c.Run(context.Background(), deps)
		var p *PanicError
		if errors.As(err, &p) {
			t.Fatalf("%v\n%s", err, p.Stack)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	spec := specOf(b, incF, Val(41))
	ctx := context.Background()
	b.ReportAllocs()
	var c Call
	for range b.N {
		if err := c.Parse(spec); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Run(ctx, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	var bu Builder
	var buf []byte
	p := NewParam[int]()
	b.ReportAllocs()
	for i := range b.N {
		bu.Begin(incF)
		if err := p.Val(&bu, i); err != nil {
			b.Fatal(err)
		}
		buf = bu.Append(buf[:0])
	}
}
