package msgpack

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"
)

// Encoder encodes trees of values. Its zero value is ready to use.
type Encoder struct {
	// MaxDepth bounds the nesting (default 1024, as in Python).
	MaxDepth int
	// Default, if set, is called first for values of unsupported types, like Python's default. It returns the value to
	// encode instead, which is passed to Append as well.
	Default func(v any) (any, error)
}

// Append appends a tree of values: results of Decode, all Go numbers, maps with string keys (in the order of the keys),
// slices and arrays of such values, and Raw.
func Append(dst []byte, v any) ([]byte, error) { return new(Encoder).Append(dst, v) }

// Append appends a tree of values.
func (e *Encoder) Append(dst []byte, v any) ([]byte, error) {
	depth := e.MaxDepth
	if depth <= 0 {
		depth = DefaultMaxDepth
	}
	return e.append(dst, v, depth)
}

func (e *Encoder) append(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return AppendNil(dst), nil
	case bool:
		return AppendBool(dst, v), nil
	case int:
		return AppendInt(dst, int64(v)), nil
	case int64:
		return AppendInt(dst, v), nil
	case uint64:
		return AppendUint(dst, v), nil
	case float64:
		return AppendFloat(dst, v), nil
	case string:
		if len(v) > MaxLen {
			return dst, tooLong(len(v))
		}
		if !utf8.ValidString(v) {
			return dst, fmt.Errorf("msgpack: string %.40q is not UTF-8: use bytes", v)
		}
		return AppendString(dst, v), nil
	case []byte:
		if len(v) > MaxLen {
			return dst, tooLong(len(v))
		}
		return AppendBytes(dst, v), nil
	case Raw:
		return append(dst, v...), nil
	case []any:
		return e.array(dst, v, depth)
	case []string:
		return list(e, dst, v, depth)
	case []int64:
		return list(e, dst, v, depth)
	case []bool:
		return list(e, dst, v, depth)
	case Map:
		return e.mapping(dst, v, depth)
	case map[string]any:
		if depth == 0 {
			return dst, errDepth
		}
		dst = AppendMapHeader(dst, len(v))
		var err error
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if dst, err = e.append(dst, k, depth-1); err != nil {
				return dst, err
			}
			if dst, err = e.append(dst, v[k], depth-1); err != nil {
				return dst, fmt.Errorf("%w in %q", err, k)
			}
		}
		return dst, nil
	}
	return e.other(dst, v, depth)
}

var errDepth = fmt.Errorf("msgpack: values are nested too deeply")

func tooLong(n int) error {
	return fmt.Errorf("msgpack: length %d exceeds the limit of the format (%d): send the value as a frame", n, MaxLen)
}

func (e *Encoder) array(dst []byte, v []any, depth int) ([]byte, error) {
	return list(e, dst, v, depth)
}

func list[T any](e *Encoder, dst []byte, v []T, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, errDepth
	}
	if len(v) > MaxLen {
		return dst, tooLong(len(v))
	}
	dst = AppendArrayHeader(dst, len(v))
	var err error
	for _, x := range v {
		if dst, err = e.append(dst, x, depth-1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (e *Encoder) mapping(dst []byte, v Map, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, errDepth
	}
	if len(v) > MaxLen {
		return dst, tooLong(len(v))
	}
	dst = AppendMapHeader(dst, len(v))
	var err error
	for _, p := range v {
		if dst, err = e.append(dst, p.Key, depth-1); err != nil {
			return dst, err
		}
		if dst, err = e.append(dst, p.Value, depth-1); err != nil {
			return dst, fmt.Errorf("%w in %.40v", err, p.Key)
		}
	}
	return dst, nil
}

// other encodes the result of Default for a value, or the value by its kind.
func (e *Encoder) other(dst []byte, v any, depth int) ([]byte, error) {
	if e.Default != nil {
		w, err := e.Default(v)
		if err != nil {
			return dst, err
		}
		// The same type again would not terminate.
		if reflect.TypeOf(w) != reflect.TypeOf(v) {
			if depth == 0 {
				return dst, errDepth
			}
			return e.append(dst, w, depth-1)
		}
	}
	x := reflect.ValueOf(v)
	switch x.Kind() {
	case reflect.Bool:
		return AppendBool(dst, x.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return AppendInt(dst, x.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return AppendUint(dst, x.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return AppendFloat(dst, x.Float()), nil
	case reflect.String:
		return e.append(dst, x.String(), depth)
	case reflect.Slice, reflect.Array:
		return e.slice(dst, x, depth)
	case reflect.Map:
		return e.reflectMap(dst, x, depth)
	}
	return dst, fmt.Errorf("msgpack: cannot encode %T: use Serialize or ToPickle", v)
}

func (e *Encoder) slice(dst []byte, x reflect.Value, depth int) ([]byte, error) {
	if x.Type().Elem().Kind() == reflect.Uint8 && x.Kind() == reflect.Slice {
		return e.append(dst, x.Bytes(), depth)
	}
	if depth == 0 {
		return dst, errDepth
	}
	if x.Len() > math.MaxUint32 {
		return dst, tooLong(x.Len())
	}
	dst = AppendArrayHeader(dst, x.Len())
	var err error
	for i := range x.Len() {
		if dst, err = e.append(dst, x.Index(i).Interface(), depth-1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (e *Encoder) reflectMap(dst []byte, x reflect.Value, depth int) ([]byte, error) {
	if x.Type().Key().Kind() != reflect.String {
		return dst, fmt.Errorf("msgpack: %v has no order: use Map", x.Type())
	}
	m := make(map[string]any, x.Len())
	for it := x.MapRange(); it.Next(); {
		m[it.Key().String()] = it.Value().Interface()
	}
	return e.append(dst, m, depth)
}
