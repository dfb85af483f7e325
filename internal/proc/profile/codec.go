package profile

import (
	"fmt"
	"math"

	"go.millstream.dev/internal/wire/msgpack"
)

// Append appends the tree as msgpack in the form of Dask: {count, children, identifier, description}.
func (t *Tree) Append(dst []byte) []byte {
	t.open()
	children := t.children()
	var add func(dst []byte, i int32) []byte
	add = func(dst []byte, i int32) []byte {
		n := t.nodes[i]
		dst = msgpack.AppendMapHeader(dst, 4)
		dst = msgpack.AppendInt(msgpack.AppendString(dst, "count"), n.count)
		dst = msgpack.AppendMapHeader(msgpack.AppendString(dst, "children"), len(children[i]))
		for _, c := range children[i] {
			dst = msgpack.AppendString(dst, t.nodes[c].frame.ID)
			dst = add(dst, c) // at most MaxDepth deep
		}
		dst = msgpack.AppendString(msgpack.AppendString(dst, "identifier"), n.frame.ID)
		dst = msgpack.AppendMapHeader(msgpack.AppendString(dst, "description"), 4)
		dst = msgpack.AppendString(msgpack.AppendString(dst, "filename"), n.frame.File)
		dst = msgpack.AppendString(msgpack.AppendString(dst, "name"), n.frame.Name)
		dst = msgpack.AppendInt(msgpack.AppendString(dst, "line_number"), int64(n.frame.Line))
		return msgpack.AppendString(msgpack.AppendString(dst, "line"), n.frame.Text)
	}
	return add(dst, 0)
}

// Encoded returns the tree as an encoded value of a message.
func (t *Tree) Encoded() msgpack.Raw { return t.Append(nil) }

// Read adds the counts of an encoded tree, which a peer has sent: depth, nodes and texts beyond the limits of a tree
// are skipped. After an error the tree contains what was read before.
func (t *Tree) Read(data []byte) error {
	t.open()
	r := msgpack.NewReader(data)
	if err := t.read(&r, 0, false); err != nil {
		return fmt.Errorf("profile: call tree: %w", err)
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("profile: call tree: %w", err)
	}
	return nil
}

// read reads a node. describe reports whether its frame is new and gets the description that is read.
func (t *Tree) read(r *msgpack.Reader, at int32, describe bool) error {
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var name []byte
		if name, err = r.ReadName(); err != nil {
			break
		}
		switch string(name) {
		case "count":
			var c int64
			if c, err = readCount(r); err == nil {
				t.add(at, c)
			}
		case "children":
			err = t.readChildren(r, at)
		case "description":
			if !describe || r.Kind() != msgpack.MapKind {
				err = r.Skip()
				continue
			}
			err = t.readFrame(r, t.nodes[at].frame)
		default:
			err = r.Skip()
		}
	}
	return err
}

func (t *Tree) readChildren(r *msgpack.Reader, parent int32) error {
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var id []byte
		if id, err = r.ReadStringBytes(); err != nil {
			break
		}
		key := clip(string(id[:min(len(id), 2*maxID)]), maxID)
		f := &Frame{ID: key}
		at, isNew := t.child(parent, key, f)
		if isNew {
			t.bytes += len(key)
		}
		if at < 0 {
			err = r.Skip() // does not recurse
			continue
		}
		err = t.read(r, at, isNew) // at most MaxDepth deep
	}
	return err
}

// readFrame reads the description of a function.
func (t *Tree) readFrame(r *msgpack.Reader, f *Frame) error {
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var name []byte
		if name, err = r.ReadName(); err != nil {
			break
		}
		var to *string
		switch string(name) {
		case "filename":
			to = &f.File
		case "name":
			to = &f.Name
		case "line":
			to = &f.Text
		case "line_number":
			var line int64
			if line, err = readCount(r); err == nil {
				f.Line = int(min(line, math.MaxInt32))
			}
			continue
		}
		if to == nil || r.Kind() != msgpack.Str {
			err = r.Skip()
			continue
		}
		var text []byte
		if text, err = r.ReadStringBytes(); err == nil {
			t.bytes -= len(*to)
			*to = clip(string(text[:min(len(text), 2*maxText)]), maxText)
			t.bytes += len(*to)
		}
	}
	return err
}

// readCount reads a number that is not negative; others are 0.
func readCount(r *msgpack.Reader) (int64, error) {
	switch r.Kind() {
	case msgpack.Int:
		v, err := r.ReadInt()
		if err != nil {
			return 0, r.Skip() // more than an int64
		}
		return max(0, min(v, maxCount)), nil
	case msgpack.Float:
		v, err := r.ReadFloat()
		if !(v > 0) {
			v = 0
		}
		return int64(min(v, maxCount)), err
	}
	return 0, r.Skip()
}
