package wire

import (
	"bytes"
	"testing"

	"go.millstream.dev/mem"
)

func TestFrameOfHeap(t *testing.T) {
	b := make([]byte, 3, 10)
	f := HeapFrame(b)
	if f.Len() != 3 || f.Buffer() != nil || f.OnDevice() || f.CUDA() {
		t.Errorf("got %+v", f)
	}
	if got := f.Bytes(); &got[0] != &b[0] || cap(got) != 3 {
		t.Error("the memory was copied, or an append would reach what lies behind")
	}
	if r := f.Retain(); r.Len() != 3 {
		t.Error("retained, it is another")
	}
	f.Release() // needs nothing
	var zero Frame
	if zero.Len() != 0 || len(zero.Bytes()) != 0 {
		t.Error("the zero frame is not empty")
	}
}

func TestFrameFlag(t *testing.T) {
	f := HeapFrame([]byte("x")).WithCUDA()
	if !f.CUDA() || f.OnDevice() || string(f.Bytes()) != "x" {
		t.Errorf("got %+v", f)
	}
	if !f.Retain().CUDA() || !f.slice(0, 1).CUDA() || !f.clone().CUDA() {
		t.Error("the flag is lost")
	}
}

func TestMessageReferences(t *testing.T) {
	freed := false
	data := bytes.Repeat([]byte("abc"), 100)
	r := mem.NewRegion(mem.RegionConfig{Heap: data, Free: func() { freed = true }})
	m := &Message{Frames: []Frame{HeapFrame([]byte("body")), BufferFrame(r.Buffer())}}
	if m.Size() != 304 || string(m.Body()) != "body" {
		t.Errorf("%d bytes, body %q", m.Size(), m.Body())
	}
	other := m.Retain()
	part := other.Frames[1].slice(3, 6)
	m.Release()
	if m.Frames != nil || freed {
		t.Error("a released message has frames, or its buffer is free too early")
	}
	if !bytes.Equal(other.Frames[1].Bytes(), data) || string(part.Bytes()) != "abc" {
		t.Error("the other message has other bytes")
	}
	other.Release()
	if freed {
		t.Error("a view of the buffer is left, and it is free")
	}
	part.Release()
	if !freed {
		t.Error("nobody has the buffer, and it is not free")
	}
	if len(new(Message).Body()) != 0 {
		t.Error("an empty message has a body")
	}
}

// TestEncodeReleasesOnError: a message that fails half way keeps nothing.
func TestEncodeReleasesOnError(t *testing.T) {
	freed := false
	r := mem.NewRegion(mem.RegionConfig{Heap: make([]byte, 100), Free: func() { freed = true }})
	f := BufferFrame(r.Buffer())
	s := &Serialized{Header: mustPack(t, NewDict("serializer", "x", "num-sub-frames", 1)), Frames: []Frame{f}}
	if _, err := Encode([]any{s, make(chan int)}, EncodeOptions{}); err == nil {
		t.Fatal("a channel was encoded")
	}
	if _, err := EncodeValue([]any{s, make(chan int)}, EncodeOptions{}); err == nil {
		t.Fatal("a channel was encoded")
	}
	f.Release()
	if !freed {
		t.Error("a reference is left")
	}
}
