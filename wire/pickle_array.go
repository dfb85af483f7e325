package wire

import "go.millstream.dev/internal/wire/pickle"

// Arrays within pickles: those for which Dask does not use a frame, such as members of nested lists. With protocol 5
// their memory is still sent in separate buffers.

// fromPickleArray converts an array of package pickle, if it has a plain type.
func fromPickleArray(v any) (*NDArray, bool) {
	a, ok := v.(*pickle.Array)
	if !ok || a.DType == nil || a.Objects != nil || len(a.DType.Fields) > 0 || a.DType.Base != nil {
		return nil, false
	}
	out := &NDArray{DType: DType(a.DType.String()), Shape: a.Shape, Strides: a.Strides, Data: a.Data,
		ReadOnly: a.ReadOnly}
	return out, out.DType.kind() != 'V' && out.Check() == nil
}

// toPickleArray reverses fromPickleArray. Only arrays with gaps are copied.
func toPickleArray(a *NDArray) (any, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if err := a.spelled(); err != nil {
		return nil, err
	}
	dt, err := pickle.ParseDType(string(a.DType))
	if err != nil {
		return nil, err
	}
	n, _ := a.count()
	out := &pickle.Array{DType: dt, Shape: a.Shape, Strides: a.strides(), ReadOnly: a.ReadOnly}
	switch {
	case n == 0:
		out.Data = []byte{}
	case a.COrder() || a.FOrder():
		out.Data = a.Data[a.Offset : a.Offset+n*a.DType.ItemSize()]
	default:
		out.Data = a.compact()
		out.Strides = cStrides(a.Shape, a.DType.ItemSize())
	}
	return out, nil
}
