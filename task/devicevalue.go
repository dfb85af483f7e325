package task

import (
	"bytes"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/pickle"
)

// bufferArray is a buffer as Python knows it, RMM's DeviceBuffer. It borrows the buffer's reference.
func bufferArray(b *mem.Buffer) *wire.DeviceArray {
	return &wire.DeviceArray{Class: wire.RMMBuffer, DType: wire.Uint8, Shape: []int{b.Len()}, Frame: wire.BufferFrame(b).WithCUDA()}
}

// arrayBuffer is the memory of a device array with a reference of its own: a copy on Go's heap if
// it arrived there.
func arrayBuffer(a *wire.DeviceArray) *mem.Buffer {
	if b := a.Buffer(); b != nil {
		return b.Retain()
	}
	return mem.FromBytes(bytes.Clone(a.Frame.Bytes()))
}

// collected is a tree with device arrays in it as a collection of package wire's, whose members
// travel one by one: no pickle can hold them. It is false for a tree without.
func collected(tree any) (any, bool) {
	switch x := tree.(type) {
	case *wire.DeviceArray:
		return x, true
	case *pickle.List:
		return collectedList(x.Items)
	case *pickle.Dict:
		out := make(wire.Dict, 0, x.Len())
		found := false
		for _, p := range x.Items() {
			v, ok := collected(p.Value)
			found = found || ok
			out = append(out, wire.Pair{Key: p.Key, Value: v})
		}
		if found {
			return out, true
		}
	}
	return tree, false
}

func collectedList(items []any) (any, bool) {
	out := make([]any, len(items))
	found := false
	for i, x := range items {
		v, ok := collected(x)
		out[i], found = v, found || ok
	}
	return out, found
}
