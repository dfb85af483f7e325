package ucx

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

// celsius shows that types of the user's own travel too.
type celsius float32

// moves sends a slice and compares what arrives in another.
func moves[T mem.Numeric](t *testing.T, a, b *Endpoint, s []T) {
	t.Helper()
	ctx := testContext(t)
	got := make([]T, len(s))
	v := Of(s)
	size := int(reflect.TypeFor[T]().Size())
	if v.Len() != len(s)*size || v.Kind() != mem.Host || v.readOnly {
		t.Errorf("%T: view of %d bytes, kind %v", s, v.Len(), v.Kind())
	}
	var info RecvInfo
	err := both(func() error { return a.Send(ctx, v, 1) },
		func() (err error) { info, err = b.Recv(ctx, Of(got), 1, FullMask); return err })
	if err != nil || info.Len != len(s)*size || !reflect.DeepEqual(got, s) {
		t.Errorf("%T: %v, %d bytes, %v", s, got, info.Len, err)
	}
}

func TestSlicesOfEveryNumber(t *testing.T) {
	a, b := pair(t, Config{}, WorkerConfig{})
	moves(t, a, b, []int8{math.MinInt8, 0, math.MaxInt8})
	moves(t, a, b, []int16{math.MinInt16, 1, math.MaxInt16})
	moves(t, a, b, []int32{math.MinInt32, 2, math.MaxInt32})
	moves(t, a, b, []int64{math.MinInt64, 3, math.MaxInt64})
	moves(t, a, b, []int{math.MinInt, math.MaxInt})
	moves(t, a, b, []uint8{0, 255})
	moves(t, a, b, []uint16{0, math.MaxUint16})
	moves(t, a, b, []uint32{0, math.MaxUint32})
	moves(t, a, b, []uint64{0, math.MaxUint64})
	moves(t, a, b, []uint{0, math.MaxUint})
	moves(t, a, b, []float32{math.SmallestNonzeroFloat32, math.MaxFloat32, float32(math.Inf(-1))})
	moves(t, a, b, []float64{math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1)})
	moves(t, a, b, []complex64{1 + 2i, -3})
	moves(t, a, b, []complex128{1 + 2i, -3i})
	moves(t, a, b, []celsius{-40, 36.6})
	moves(t, a, b, []float64{})
	moves(t, a, b, make([]uint16, 100_000))
}

// holder is anything that shows its bytes.
type holder []byte

func (h holder) Bytes() []byte { return h }

// Every kind of memory is moved in place, in whole and in part, to every other kind.
func TestBuffersOfEveryKind(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	c := a.Worker().Context()
	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pool.Close(); err != nil {
			t.Errorf("an operation kept its buffer: %v", err)
		}
	}()
	kinds := []struct {
		name string
		make func(n int) (View, []byte, func())
	}{
		{"slice", func(n int) (View, []byte, func()) { s := make([]byte, n); return Bytes(s), s, func() {} }},
		{"holder", func(n int) (View, []byte, func()) { h := make(holder, n); return Bytes(h.Bytes()), h, func() {} }},
		{"heap buffer", func(n int) (View, []byte, func()) {
			m := mem.FromBytes(make([]byte, n))
			return Buffer(m), m.Bytes(), m.Release
		}},
		{"mmap", func(n int) (View, []byte, func()) { return allocated(t, mem.NewMmap(mem.MmapConfig{}), n) }},
		{"pool", func(n int) (View, []byte, func()) { return allocated(t, pool, n) }},
		{"UCX's own", func(n int) (View, []byte, func()) { return allocated(t, c.Resource(mem.Host, -1), n) }},
		{"slice of a buffer", func(n int) (View, []byte, func()) {
			_, all, free := allocated(t, pool, n+32)
			m := mem.FromBytes(all)
			part := m.Slice(16, n)
			return Buffer(part), part.Bytes(), func() { part.Release(); free() }
		}},
		{"part of a view", func(n int) (View, []byte, func()) {
			s := make([]byte, n+9)
			return Bytes(s).Slice(4, n), s[4 : 4+n], func() {}
		}},
	}
	for _, n := range []int{0, 1, 1000, 70_000} {
		want := testBytes(uint64(n), n)
		for _, from := range kinds {
			for _, to := range kinds {
				src, sb, freeSrc := from.make(n)
				dst, db, freeDst := to.make(n)
				copy(sb, want)
				err := both(func() error { return a.Send(ctx, src, 1) },
					func() error { _, err := b.Recv(ctx, dst, 1, FullMask); return err })
				if err != nil || !bytes.Equal(db, want) {
					t.Errorf("%s to %s, %d bytes: equal %v, %v", from.name, to.name, n, bytes.Equal(db, want), err)
				}
				freeSrc()
				freeDst()
			}
		}
	}
}

func allocated(t *testing.T, r mem.Resource, n int) (View, []byte, func()) {
	t.Helper()
	b, err := r.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return Buffer(b), b.Bytes(), b.Release
}

// A view that cannot be is refused by the operation it is given to.
func TestViewsRefused(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	for name, v := range map[string]View{
		"nil buffer":    Buffer(nil),
		"beyond":        Bytes(make([]byte, 8)).Slice(4, 5),
		"negative":      Bytes(make([]byte, 8)).Slice(-1, 2),
		"part of a bad": Buffer(nil).Slice(0, 0),
	} {
		if err := a.Send(ctx, v, 1); err == nil || !strings.HasPrefix(err.Error(), "tag send") {
			t.Errorf("%s: Send: %v", name, err)
		}
		if _, err := b.Recv(ctx, v, 1, FullMask); err == nil {
			t.Errorf("%s: received", name)
		}
		if err := a.StartSendAM(1, nil, AMOptions{}, Bytes([]byte{1}), v).Wait(ctx); err == nil {
			t.Errorf("%s: sent as part of a message", name)
		}
	}
}
