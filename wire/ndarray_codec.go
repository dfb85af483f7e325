package wire

import (
	"fmt"
	"slices"
)

// decodeNDArray returns an array of a frame, without a copy. It returns nil for types that are not plain: structured
// ones and Python objects.
func decodeNDArray(h Dict, frames []Frame) (any, error) {
	if v, _ := h.Get("pickle"); truthy(v) {
		return nil, nil
	}
	v, _ := h.Get("dtype")
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return nil, headerError("dtype", v, "a pair")
	}
	text, ok := pair[1].(string)
	_, bad := DType(text).parse()
	if custom := truthy(pair[0]); custom || !ok || bad != nil || matrix(h) {
		return nil, nil
	}
	if len(frames) != 1 || frames[0].OnDevice() {
		return nil, fmt.Errorf("wire: array has %d frames, want one in host memory", len(frames))
	}
	a := &NDArray{DType: DType(text), Data: frames[0].Bytes()}
	var err error
	shape := "shape"
	if v, _ := h.Get("broadcast_to"); truthy(v) {
		shape = "broadcast_to"
	}
	if a.Shape, err = dims(h, shape); err != nil {
		return nil, err
	}
	if a.Strides, err = dims(h, "strides"); err != nil {
		return nil, err
	}
	v, _ = h.Get("writeable")
	w, _ := v.([]any)
	a.ReadOnly = len(w) != 1 || !truthy(w[0])
	if err := a.Check(); err != nil {
		return nil, err
	}
	return a, nil
}

// matrix reports whether the value is a numpy.matrix, which is not an array in Python.
func matrix(h Dict) bool {
	v, _ := h.Get("matrix")
	return truthy(v)
}

// truthy implements Python's truth rules.
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []byte:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case Dict:
		return len(v) > 0
	}
	return true
}

// dims decodes a list of numbers, at most one for each dimension.
func dims(h Dict, key string) ([]int, error) {
	v, _ := h.Get(key)
	list, ok := v.([]any)
	if !ok || len(list) > maxDims {
		return nil, headerError(key, v, "a list of numbers")
	}
	out := make([]int, len(list))
	for i, x := range list {
		n, ok := x.(int64)
		if !ok || n > 1<<62 || n < -1<<62 {
			return nil, headerError(key, v, "a list of numbers")
		}
		out[i] = int(n)
	}
	return out, nil
}

// encodeNDArray returns the array in Dask's family, without a copy if it is contiguous or broadcast from contiguous
// memory.
func encodeNDArray(a *NDArray) (Dict, []Frame, error) {
	if err := a.Check(); err != nil {
		return nil, nil, err
	}
	dtype := a.DType
	if dtype[0] == '=' {
		dtype = "<" + dtype[1:]
	}
	n, _ := a.count()
	x := *a
	x.Strides = a.strides()
	var broadcast []int
	if n > 0 && slices.Contains(x.Strides, 0) {
		// Only one of the repeated elements is sent.
		broadcast = a.Shape
		x.Shape = slices.Clone(a.Shape)
		for i, s := range x.Strides {
			if s == 0 {
				x.Shape[i] = 1
			}
		}
		n, _ = x.count()
	}
	var data []byte
	size := n * dtype.ItemSize()
	if n == 0 {
		data = []byte{}
	} else if x.COrder() || x.FOrder() {
		data = x.Data[x.Offset : x.Offset+size : x.Offset+size]
	} else {
		data = x.compact()
		old := x.Strides
		x.Strides = cStrides(x.Shape, dtype.ItemSize())
		if broadcast != nil {
			for i, s := range old {
				if s == 0 {
					x.Strides[i] = 0
				}
			}
		}
	}
	h := NewDict(
		"dtype", []any{int64(0), string(dtype)},
		"shape", x.Shape,
		"strides", x.Strides,
		"writeable", []any{!a.ReadOnly},
	)
	if broadcast != nil {
		h = append(h, Pair{Key: "broadcast_to", Value: broadcast})
	}
	return h, []Frame{HeapFrame(data)}, nil
}
