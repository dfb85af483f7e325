package wire

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
)

// onDevice is memory that the CPU must not touch: it is at an address where nothing is, so
// that a test that does ends at once.
func onDevice(t *testing.T, n int) (*mem.Buffer, *bool) {
	t.Helper()
	freed := new(bool)
	r := mem.NewRegion(mem.RegionConfig{Addr: 1 << 20, Len: n, Kind: mem.Device, Free: func() { *freed = true }})
	return r.Buffer(), freed
}

func TestDeviceMemoryIsNotTouched(t *testing.T) {
	buf, freed := onDevice(t, 400_000)
	in := &DeviceArray{DType: Float32, Shape: []int{100_000}, Frame: BufferFrame(buf)}
	for _, opt := range []EncodeOptions{{}, {Compression: "lz4", ShardSize: 1000}} {
		m, err := Encode(NewDict("data", Serialize{NewDict("x", in, "y", []byte("host"))}), opt)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frames) != 4 || !m.Frames[2].OnDevice() || !m.Frames[2].CUDA() {
			t.Fatalf("%d frames", len(m.Frames))
		}
		for _, keep := range []bool{false, true} {
			v, err := Decode(m, DecodeOptions{Keep: keep})
			if err != nil {
				t.Fatal(err)
			}
			again, err := Encode(v, opt)
			if err != nil {
				t.Fatal(err)
			}
			if !again.Frames[2].OnDevice() {
				t.Error("passed on, the array is not on the device any more")
			}
			again.Release()
			if keep {
				continue
			}
			d, _ := v.(Dict).Get("data")
			x, _ := d.(Dict).Get("x")
			if a := x.(*DeviceArray); !a.Frame.OnDevice() || a.Frame.Buffer().Addr() != 1<<20 {
				t.Errorf("got %+v", a)
			}
		}
		m.Release()
	}
	if *freed {
		t.Error("the memory is free, and the array still has it")
	}
	in.Frame.Release()
	if !*freed {
		t.Error("a reference is left")
	}
}

// TestDeviceMemoryWhereHostBelongs sends frames of a GPU for what only the CPU can read.
func TestDeviceMemoryWhereHostBelongs(t *testing.T) {
	buf, _ := onDevice(t, 100)
	dev := BufferFrame(buf)
	defer dev.Release()
	header := func(h Dict) Frame {
		h.Set("num-sub-frames", 1)
		b, err := msgpack.Append(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		return HeapFrame(b)
	}
	body := HeapFrame(mustPack(t, NewDict("__Serialized__", 1)))
	pickled := HeapFrame(mustPack(t, NewDict("__Pickled__", 1)))
	array := NewDict("dtype", []any{0, "|u1"}, "shape", []int{100}, "strides", []int{1}, "writeable", []any{true})
	for name, frames := range map[string][]Frame{
		"body":       {dev},
		"header":     {body, dev},
		"bytes":      {body, header(daskHeader(classBytes, nil)), dev},
		"array":      {body, header(daskHeader(classNDArray, array)), dev},
		"table":      {body, header(daskHeader(classTable, nil)), dev},
		"pickle":     {body, header(NewDict("serializer", "pickle")), dev},
		"msgpack":    {body, header(NewDict("serializer", "msgpack")), dev},
		"error":      {body, header(NewDict("serializer", "error")), dev},
		"compressed": {body, header(NewDict("serializer", "cuda", "compression", []any{"lz4"})), dev},
		"shards": {body, HeapFrame(mustPack(t, NewDict("serializer", "cuda", "num-sub-frames", 2,
			"split-num-sub-frames", []int{2}, "split-offsets", []int{0}))), dev, dev},
		"buffer of value": {pickled, header(NewDict("pickled-obj", []byte("\x80\x05N."))), dev},
	} {
		if _, err := Decode(&Message{Frames: frames}, DecodeOptions{}); err == nil ||
			!strings.Contains(err.Error(), "GPU") && !strings.Contains(err.Error(), "host memory") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The second array of a shape is encoded with the first one's header, and one that says too much still is an error.
func TestDeviceHeaders(t *testing.T) {
	array := func(n int, shape ...int) *DeviceArray {
		return &DeviceArray{DType: Int32, Shape: shape, Frame: HeapFrame(make([]byte, n)).WithCUDA()}
	}
	first, err := EncodeValue(array(24, 2, 3), EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := EncodeValue(array(24, 2, 3), EncodeOptions{})
	if err != nil || &first.Header[0] != &second.Header[0] || len(second.Frames) != 1 || second.Frames[0].Len() != 24 {
		t.Errorf("%v, %v", second, err)
	}
	v, err := second.Decode(DecodeOptions{})
	if d, ok := v.(*DeviceArray); err != nil || !ok || len(d.Shape) != 2 || d.Shape[1] != 3 || !d.Frame.CUDA() {
		t.Errorf("%v, %v", v, err)
	}
	for _, other := range []*DeviceArray{array(24, 3, 2), array(24, 6),
		{DType: Int32, Shape: []int{2, 3}, Strides: []int{4, 8}, Frame: HeapFrame(make([]byte, 24)).WithCUDA()},
		{DType: Uint32, Shape: []int{2, 3}, Frame: HeapFrame(make([]byte, 24)).WithCUDA()}} {
		s, err := EncodeValue(other, EncodeOptions{})
		if err != nil || string(s.Header) == string(first.Header) {
			t.Errorf("%v %v: %v", other.Shape, other.Strides, err)
		}
	}
	if _, err := EncodeValue(array(23, 2, 3), EncodeOptions{}); err == nil {
		t.Error("23 bytes for 6 numbers")
	}
	for i := range maxDeviceHeaders + 10 {
		if _, err := EncodeValue(array(4*(i+1), i+1), EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deviceHeaders.RLock()
	defer deviceHeaders.RUnlock()
	if len(deviceHeaders.m) > maxDeviceHeaders {
		t.Errorf("%d headers are kept", len(deviceHeaders.m))
	}
}
