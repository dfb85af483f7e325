package wire

import (
	"fmt"

	"go.millstream.dev/internal/wire/pickle"
)

// pickleValue returns the pickle of a value. With protocol 5 the memory of arrays is sent in separate buffers; it is
// borrowed.
func pickleValue(v any, protocol int) (data []byte, bufs []Frame, err error) {
	t, err := toTree(v, maxPickleDepth)
	if err != nil {
		return nil, nil, err
	}
	opt := pickle.Options{Protocol: protocol}
	var out [][]byte
	if protocol >= 5 {
		opt.Buffers = &out
	}
	if data, err = pickle.Append(nil, t, opt); err != nil {
		return nil, nil, err
	}
	for _, b := range out {
		bufs = append(bufs, HeapFrame(b))
	}
	return data, bufs, nil
}

// toTree converts this package's types to those of package pickle, which supports the others.
func toTree(v any, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("wire: value is nested too deeply, or contains itself")
	}
	switch v := v.(type) {
	case []any:
		items, err := toTrees(v, depth)
		return &pickle.List{Items: items}, err
	case Tuple:
		items, err := toTrees(v, depth)
		return Tuple(items), err
	case Set:
		items, err := toTrees(v, depth)
		return &pickle.Set{Items: items}, err
	case FrozenSet:
		items, err := toTrees(v, depth)
		return &pickle.FrozenSet{Items: items}, err
	case ByteArray:
		return &pickle.ByteArray{Data: v}, nil
	case Dict:
		d := new(pickle.Dict)
		for _, p := range v {
			key, err := toTree(p.Key, depth-1)
			if err != nil {
				return nil, err
			}
			value, err := toTree(p.Value, depth-1)
			if err != nil {
				return nil, err
			}
			d.Set(key, value)
		}
		return d, nil
	case map[string]any:
		d := new(pickle.Dict)
		for _, k := range sortedKeys(v) {
			value, err := toTree(v[k], depth-1)
			if err != nil {
				return nil, err
			}
			d.Set(k, value)
		}
		return d, nil
	case *NDArray:
		return toPickleArray(v)
	case Enum:
		// As in Python: the class, called with the name.
		return pickle.Call(pickle.Global{Module: "builtins", Name: "getattr"},
			pickle.Global{Module: v.Module, Name: v.Class}, v.Name), nil
	case *Object:
		return v.tree(pickle.Limits{})
	case *Pickled:
		return v.tree(pickle.Limits{})
	case Serialize:
		return toTree(v.Value, depth-1)
	case ToPickle:
		return toTree(v.Value, depth-1)
	}
	return v, nil
}

func toTrees(in []any, depth int) ([]any, error) {
	out := make([]any, len(in))
	for i, x := range in {
		var err error
		if out[i], err = toTree(x, depth-1); err != nil {
			return nil, err
		}
	}
	return out, nil
}
