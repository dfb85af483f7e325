package task

import "go.millstream.dev/internal/task/taskid"

// Key identifies a task and its result in the whole cluster. It holds the canonical msgpack encoding of a Dask key
// (str, bytes, int, float or a tuple of these), so that equal keys are equal strings and a key is written to a message
// unchanged. Its methods:
//
//	String() string                // the key as text: the string itself, or a tuple as in Python
//	Value() any                    // string, []byte, int64, uint64, float64, bool or []any
//	Append(dst []byte) []byte      // appends the key as msgpack
//	Raw() msgpack.Raw              // the key as msgpack, for values that are encoded later
type Key = taskid.Key

// NewKey returns the key of a text. Bytes that are not UTF-8 are replaced.
func NewKey(text string) Key { return taskid.NewKey(text) }

// KeyOf returns the key of a value: string, []byte, an int, float64, or []any for a tuple of these.
func KeyOf(v any) (Key, error) { return taskid.KeyOf(v) }

// ParseKey decodes a key from msgpack, canonical or not.
func ParseKey(raw []byte) (Key, error) { return taskid.ParseKey(raw) }
