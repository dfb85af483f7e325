package ucx

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// countingAllocator counts what arrow asks for.
type countingAllocator struct {
	memory.Allocator
	bytes int
}

func (a *countingAllocator) Allocate(n int) []byte {
	a.bytes += n
	return a.Allocator.Allocate(n)
}

// An arrow buffer is sent from where it is and received into where it is.
func TestArrowBuffers(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	pool := &countingAllocator{Allocator: memory.NewGoAllocator()}
	for _, n := range []int{10, 1000, 200_000} {
		builder := array.NewFloat64Builder(pool)
		for i := range n {
			builder.Append(float64(i) / 3)
		}
		values := builder.NewFloat64Array()
		src := values.Data().Buffers()[1]
		v := Bytes(src.Bytes())
		if v.Len() != src.Len() || v.ptr != unsafe.Pointer(unsafe.SliceData(src.Bytes())) {
			t.Errorf("%d values: the view is not the buffer", n)
		}
		dst := memory.NewResizableBuffer(pool)
		dst.Resize(src.Len())
		before := pool.bytes
		r := b.StartRecv(Bytes(dst.Bytes()), 1, FullMask)
		if err := a.Send(ctx, v, 1); err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if pool.bytes != before {
			t.Errorf("%d values: sending allocated %d bytes", n, pool.bytes-before)
		}
		if !bytes.Equal(dst.Bytes(), src.Bytes()) {
			t.Errorf("%d values differ", n)
		}
		dst.Release()
		values.Release()
		builder.Release()
	}
}

// The buffers of a record batch travel as the frames of one message.
func TestArrowArrayAsFrames(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	builder := array.NewStringBuilder(memory.NewGoAllocator())
	defer builder.Release()
	for i := range 5000 {
		if i%7 == 0 {
			builder.AppendNull()
		} else {
			builder.Append(string(testBytes(uint64(i), i%20)))
		}
	}
	col := builder.NewStringArray()
	defer col.Release()
	var frames []View
	for _, buf := range col.Data().Buffers() {
		frames = append(frames, Bytes(buf.Bytes()))
	}
	sent := make(chan error, 1)
	go func() { sent <- a.SendFrames(ctx, frames...) }()
	got, err := b.RecvFrames(ctx, Allocators{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	var bufs []*memory.Buffer
	for _, f := range got {
		bufs = append(bufs, memory.NewBufferBytes(f.Bytes()))
	}
	data := array.NewData(col.DataType(), col.Len(), bufs, nil, col.NullN(), 0)
	defer data.Release()
	back := array.NewStringData(data)
	defer back.Release()
	if !array.Equal(col, back) {
		t.Error("the column differs")
	}
	got.Release()
}
