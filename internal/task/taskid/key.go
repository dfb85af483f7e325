package taskid

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.millstream.dev/internal/wire/msgpack"
)

// Key identifies a task and its result in the whole cluster. It holds the canonical msgpack encoding of a Dask key
// (str, bytes, int, float or a tuple of these), so that equal keys are equal strings and a key is written to a message
// unchanged.
type Key string

// NewKey returns the key of a text. Bytes that are not UTF-8 are replaced.
func NewKey(text string) Key {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return Key(msgpack.AppendString(make([]byte, 0, len(text)+5), text))
}

// KeyOf returns the key of a value: string, []byte, an int, float64, or []any for a tuple of these.
func KeyOf(v any) (Key, error) {
	b, err := msgpack.KeyBytes(v)
	if err != nil {
		return "", fmt.Errorf("task: %v (%T) cannot be a key: %w", v, v, err)
	}
	return Key(b), nil
}

// ParseKey decodes a key from msgpack, canonical or not.
func ParseKey(raw []byte) (Key, error) {
	r := msgpack.NewReader(raw)
	b, err := r.ReadKey(nil)
	if err != nil {
		return "", fmt.Errorf("task: %w", err)
	}
	if err := r.End(); err != nil {
		return "", fmt.Errorf("task: %w", err)
	}
	return Key(b), nil
}

// Append appends the key as msgpack.
func (k Key) Append(dst []byte) []byte { return append(dst, k...) }

// Raw returns the key as msgpack, for values that are encoded later.
func (k Key) Raw() msgpack.Raw { return msgpack.Raw(k) }

// Value returns the key as a Go value: string, []byte, int64, uint64, float64, bool or []any.
func (k Key) Value() any {
	v, err := msgpack.Decode([]byte(k))
	if err != nil {
		return string(k)
	}
	return v
}

// String returns the key as text: the string itself, or a tuple as in Python.
func (k Key) String() string {
	r := msgpack.NewReader([]byte(k))
	if r.Kind() == msgpack.Str {
		if s, err := r.ReadString(); err == nil {
			return s
		}
	}
	if k == "" {
		return ""
	}
	return keyText(k.Value())
}

func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return "'" + v + "'"
	case []byte:
		return "b" + strconv.Quote(string(v))
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = keyText(x)
		}
		if len(parts) == 1 {
			return "(" + parts[0] + ",)"
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprint(v)
}
