package task

import (
	"go.millstream.dev/internal/wire/msgpack"
)

// A spec is one encoded call:
//
//	"MS" 1                 magic and version
//	name                   str
//	[key, …]               the keys that the arguments refer to
//	n, argument, …         each a node, see nodes
//
// all but the magic in msgpack.
const specMagic = "MS\x01"

// Nodes of arguments: a small integer and its content.
const (
	nodeValue = 0 // a value, encoded by the codec of its parameter
	nodeRef   = 1 // the index of a key: the result of a task
	nodeList  = 2 // n and n nodes: a slice with references in it
	nodeMap   = 3 // n and n pairs of a value and a node: a map with references among its values
)

// IsSpec reports whether bytes are a call that a Builder has encoded, rather than a Python pickle.
func IsSpec(b []byte) bool { return len(b) > len(specMagic) && string(b[:2]) == specMagic[:2] }

// Builder encodes calls, one after the other. It is not safe for concurrent use.
type Builder struct {
	args  []byte // of the call that is being written
	nargs int
	deps  []Key
	index map[Key]int // of deps, once there are many
	fn    *Func
	depth int
}

// Begin starts a call of a function.
func (b *Builder) Begin(f *Func) {
	b.fn, b.args, b.nargs, b.depth = f, b.args[:0], 0, 0
	b.deps = b.deps[:0]
	if b.index != nil {
		clear(b.index)
	}
}

// Deps returns the keys that the call refers to, each once. They are valid until the next Begin.
func (b *Builder) Deps() []Key { return b.deps }

// Ref adds a reference to a result, as an argument or in place of an element of a list.
func (b *Builder) Ref(k Key) {
	b.args = append(b.args, nodeRef)
	b.args = msgpack.AppendUint(b.args, uint64(b.dep(k)))
}

// List begins a list of n nodes.
func (b *Builder) List(n int) {
	b.args = append(b.args, nodeList)
	b.args = msgpack.AppendUint(b.args, uint64(n))
}

// Map begins a map of n pairs: MapKey and a node each.
func (b *Builder) Map(n int) {
	b.args = append(b.args, nodeMap)
	b.args = msgpack.AppendUint(b.args, uint64(n))
}

// dep returns the index of a key, and adds it if necessary.
func (b *Builder) dep(k Key) int {
	const few = 16
	if len(b.deps) <= few {
		for i, d := range b.deps {
			if d == k {
				return i
			}
		}
	} else {
		if len(b.index) < len(b.deps) {
			if b.index == nil {
				b.index = make(map[Key]int)
			}
			for i := len(b.index); i < len(b.deps); i++ {
				b.index[b.deps[i]] = i
			}
		}
		if i, ok := b.index[k]; ok {
			return i
		}
		b.index[k] = len(b.deps)
	}
	b.deps = append(b.deps, k)
	return len(b.deps) - 1
}

// Append appends the finished call to dst.
func (b *Builder) Append(dst []byte) []byte {
	dst = append(dst, specMagic...)
	dst = msgpack.AppendString(dst, b.fn.name)
	dst = msgpack.AppendArrayHeader(dst, len(b.deps))
	for _, k := range b.deps {
		dst = append(dst, k...)
	}
	dst = msgpack.AppendUint(dst, uint64(b.nargs))
	return append(dst, b.args...)
}

// SpecInfo has the parts of an encoded call that do not depend on the types of its arguments.
type SpecInfo struct {
	// Name is the name of the function.
	Name string
	// Deps are the keys that the call refers to.
	Deps []Key
}

// ReadSpecInfo decodes name and references of a call; the function need not be registered.
func ReadSpecInfo(b []byte) (SpecInfo, error) {
	var info SpecInfo
	r, err := specReader(b)
	if err != nil {
		return info, err
	}
	name, err := r.ReadStringBytes()
	if err != nil {
		return info, &SpecError{Reason: "call without a name", Err: err}
	}
	info.Name = string(name)
	info.Deps, err = readDeps(&r)
	return info, err
}

func specReader(b []byte) (msgpack.Reader, error) {
	if !IsSpec(b) {
		return msgpack.Reader{}, &SpecError{Reason: "not a call of a Go function"}
	}
	if b[2] != specMagic[2] {
		return msgpack.Reader{}, &SpecError{Reason: "call of an unknown version; use the " +
			"same release everywhere"}
	}
	return msgpack.NewReader(b[len(specMagic):]), nil
}

// readDeps copies all keys to one allocation.
func readDeps(r *msgpack.Reader) ([]Key, error) {
	n, err := r.ReadArrayLen()
	if err != nil {
		return nil, &SpecError{Reason: "call without its references", Err: err}
	}
	if n == 0 {
		return nil, nil
	}
	deps := make([]Key, n)
	for i := range deps {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, &SpecError{Reason: "malformed key among the references of a call", Err: err}
		}
		deps[i] = Key(k)
	}
	return deps, nil
}
