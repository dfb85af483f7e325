package message

import (
	"errors"

	"go.millstream.dev/internal/task/taskid"
	"go.millstream.dev/internal/wire/msgpack"
)

// Key is the key of a task.
type Key = taskid.Key

// Raw is an encoded msgpack value.
type Raw = msgpack.Raw

// EmptyMap is a map without entries.
var EmptyMap = Raw{0x80}

// readKey reads a key, which borrows from the message if it is canonical, as those of Python always are.
func readKey(r *msgpack.Reader) (Key, error) {
	k, err := r.ReadKey(nil)
	return Key(msgpack.Borrow(k)), err
}

// readText reads a text, "" for nil.
func readText(r *msgpack.Reader) (string, error) {
	if r.TryNil() {
		return "", nil
	}
	b, err := r.ReadStringBytes()
	return msgpack.Borrow(b), err
}

// readAnyText reads a text, "" for anything else.
func readAnyText(r *msgpack.Reader) (string, error) {
	if r.Kind() != msgpack.Str {
		return "", r.Skip()
	}
	return readText(r)
}

// readBytes reads bytes, nil for nil.
func readBytes(r *msgpack.Reader) ([]byte, error) {
	if r.TryNil() {
		return nil, nil
	}
	return r.ReadBytes()
}

// readRaw reads any value, nil for nil.
func readRaw(r *msgpack.Reader) (Raw, error) {
	if r.TryNil() {
		return nil, nil
	}
	b, err := r.ReadRaw()
	return Raw(b), err
}

// readKeys reads a list or a set of keys into keys, none for nil.
func readKeys(r *msgpack.Reader, keys []Key) ([]Key, error) {
	if r.TryNil() {
		return keys, nil
	}
	if r.Kind() == msgpack.MapKind {
		raw, err := r.ReadRaw()
		if err != nil {
			return keys, err
		}
		set := msgpack.NewReader(raw)
		if err := findItems(&set); err != nil {
			return keys, err
		}
		return readKeyList(&set, keys)
	}
	return readKeyList(r, keys)
}

func readKeyList(r *msgpack.Reader, keys []Key) ([]Key, error) {
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var k Key
		if k, err = readKey(r); err == nil {
			keys = append(keys, k)
		}
	}
	return keys, err
}

// findItems moves a reader from an encoded Python set, a map, to the list of its items.
func findItems(r *msgpack.Reader) error {
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadName(); err != nil || string(k) == msgpack.SetItems {
			return err
		}
		err = r.Skip()
	}
	if err == nil {
		err = errNoItems
	}
	return err
}

var errNoItems = errors.New("a map, want an array or a set")

// ReadKeys returns the keys of a list or set, as msgpack. They borrow from raw.
func ReadKeys(raw []byte) ([]Key, error) {
	r := msgpack.NewReader(raw)
	return readKeys(&r, nil)
}

// EachKey calls f for each key of an encoded list or set of task keys, with the key in its canonical form, which
// borrows from raw if it is canonical there and is newly allocated otherwise.
func EachKey(raw []byte, f func(key []byte) error) error {
	r := msgpack.NewReader(raw)
	if r.Kind() == msgpack.MapKind {
		if err := findItems(&r); err != nil {
			return err
		}
	}
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadKey(nil); err == nil {
			err = f(k)
		}
	}
	return err
}

// KeyList is a list or set of keys that is too long to be converted to Keys.
type KeyList struct {
	// Raw is the encoded list or set: see EachKey. Read sets it.
	Raw Raw
	// Joined are the concatenated keys that Append writes, N their number; Set writes a set.
	Joined []byte
	N      int
	Set    bool
}

func (l *KeyList) read(r *msgpack.Reader) (err error) {
	*l = KeyList{}
	l.Raw, err = readRaw(r)
	return err
}

func (l *KeyList) append(b []byte) []byte {
	if l.Raw != nil {
		return append(b, l.Raw...)
	}
	if l.Set {
		b = append(b, "\x82\xa7__Set__\xc3\xa7as-list"...)
	}
	b = msgpack.AppendArrayHeader(b, l.N)
	return append(b, l.Joined...)
}

// readTexts reads a list of texts into texts, none for nil.
func readTexts(r *msgpack.Reader, texts []string) ([]string, error) {
	if r.TryNil() {
		return texts, nil
	}
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var b []byte
		if b, err = r.ReadStringBytes(); err == nil {
			texts = append(texts, msgpack.Borrow(b))
		}
	}
	return texts, err
}

// readAnyTexts reads a list of texts, none if the value is not a list.
func readAnyTexts(r *msgpack.Reader, texts []string) ([]string, error) {
	if r.Kind() != msgpack.Array {
		return texts, r.Skip()
	}
	return readTexts(r, texts)
}

func appendTexts(b []byte, texts []string) []byte {
	b = msgpack.AppendArrayHeader(b, len(texts))
	for _, s := range texts {
		b = msgpack.AppendString(b, s)
	}
	return b
}

// EachHolder calls f for each key of an encoded map from keys to lists of addresses, with the key in its canonical
// form. The arguments borrow from raw; the list is valid until f returns, and empty if the value is not a list.
func EachHolder(raw []byte, f func(key []byte, addresses []string)) error {
	r := msgpack.NewReader(raw)
	var list []string
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadKey(nil); err == nil {
			if list, err = readAnyTexts(&r, list[:0]); err == nil {
				f(k, list)
			}
		}
	}
	return err
}

// readSizes reads a list of integers into sizes, none for nil.
func readSizes(r *msgpack.Reader, sizes []int64) ([]int64, error) {
	if r.TryNil() {
		return sizes, nil
	}
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var v int64
		if v, err = r.ReadInt(); err == nil {
			sizes = append(sizes, v)
		}
	}
	return sizes, err
}

// appendText appends a text, nil for "".
func appendText(b []byte, s string) []byte {
	if s == "" {
		return msgpack.AppendNil(b)
	}
	return msgpack.AppendString(b, s)
}

// appendKey appends a key, nil for none.
func appendKey(b []byte, k Key) []byte {
	if k == "" {
		return msgpack.AppendNil(b)
	}
	return append(b, k...)
}

// appendBytes appends bytes, nil for nil.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return msgpack.AppendNil(b)
	}
	return msgpack.AppendBytes(b, v)
}

// appendRaw appends an encoded value, nil for nil.
func appendRaw(b []byte, v Raw) []byte {
	if v == nil {
		return msgpack.AppendNil(b)
	}
	return append(b, v...)
}

// AppendKeys appends a list of keys.
func AppendKeys(b []byte, keys []Key) []byte {
	b = msgpack.AppendArrayHeader(b, len(keys))
	for _, k := range keys {
		b = append(b, k...)
	}
	return b
}

func appendSizes(b []byte, sizes []int64) []byte {
	b = msgpack.AppendArrayHeader(b, len(sizes))
	for _, v := range sizes {
		b = msgpack.AppendInt(b, v)
	}
	return b
}
