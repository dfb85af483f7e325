// Package val reads and measures the values in requests: names, keys, numbers, serialized values.
package val

import (
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Texts reads one string or a list of strings.
func Texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, 0, len(v))
		for _, x := range v {
			t, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("%v is not a string", x)
			}
			out = append(out, t)
		}
		return out, nil
	case wire.Set:
		return Texts([]any(v))
	}
	return nil, fmt.Errorf("%v is not a string or a list of strings", v)
}

// KeyOf reads the key under a name.
func KeyOf(m msgpack.Map, name string) (task.Key, error) {
	v, ok := m.Get(name)
	if !ok {
		return "", fmt.Errorf("%s is missing", name)
	}
	return task.KeyOf(v)
}

// NameOf reads the name of a primitive, any hashable value of Python, as msgpack.
func NameOf(v any) (string, error) {
	b, err := msgpack.KeyBytes(v)
	if err != nil {
		return "", &rpc.Exception{Type: "TypeError", Message: fmt.Sprintf("name %v: %v", v, err)}
	}
	return string(b), nil
}

// Label returns a name as text, for messages and for the names of parts of the scheduler, such as variable-x.
func Label(name string) string { return task.Key(name).String() }

// NameSize returns the size of a name for the budget in bytes, with the overhead of an entry.
func NameSize(name string) int64 { return int64(len(name)) + 64 }

// OrNil returns nil for a nil pointer.
func OrNil(s *wire.Serialized) any {
	if s == nil {
		return nil
	}
	return s
}

// ParseKey reads a key argument; nil is none.
func ParseKey(raw msgpack.Raw) (task.Key, error) {
	if len(raw) == 0 || raw[0] == 0xc0 {
		return "", nil
	}
	return task.ParseKey(raw)
}

// Raw returns a name as a msgpack value.
func Raw(name string) msgpack.Raw { return msgpack.Raw(name) }

// RawKeys returns keys as a list of msgpack values.
func RawKeys(keys []task.Key) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Raw()
	}
	return out
}

// KeyList reads a list of keys.
func KeyList(list []any) ([]task.Key, error) {
	out := make([]task.Key, len(list))
	for i, v := range list {
		var err error
		if _, ok := v.(*wire.Pickled); ok {
			return nil, &rpc.Exception{Type: "TypeError",
				Message: "a Python object cannot be the key of a task; pass future.key of a future"}
		}
		if out[i], err = task.KeyOf(v); err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
	}
	return out, nil
}
