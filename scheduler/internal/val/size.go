package val

import (
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// maxNesting bounds the nesting of values that the scheduler keeps. Snapshots nest them deeper, in paths of metadata
// and in records, and the limit of msgpack is 1,024.
const maxNesting = 512

// Size returns the approximate number of bytes of memory of a value, and its depth.
func Size(v any) (bytes int64, depth int) {
	const head = 16 // of an interface
	switch v := v.(type) {
	case string:
		return head + int64(len(v)), 0
	case []byte:
		return head + int64(len(v)), 0
	case msgpack.Raw:
		return head + int64(len(v)), 0
	case []any:
		return listSize(v)
	case wire.Set:
		return listSize(v)
	case msgpack.Map:
		bytes = head
		for _, p := range v {
			kb, kd := Size(p.Key)
			vb, vd := Size(p.Value)
			bytes += kb + vb
			depth = max(depth, kd, vd)
		}
		return bytes, depth + 1
	case *wire.Serialized:
		if v == nil {
			return head, 0
		}
		return head + int64(len(v.Header)) + framesSize(v.Frames), 1
	case *wire.Pickled:
		if v == nil {
			return head, 0
		}
		return head + int64(len(v.Data)) + framesSize(v.Buffers), 1
	case wire.Enum:
		return head + int64(len(v.Module)+len(v.Class)+len(v.Name)), 0
	}
	return head, 0
}

func framesSize(frames []wire.Frame) (bytes int64) {
	for _, f := range frames {
		bytes += 16 + int64(f.Len())
	}
	return bytes
}

func listSize(list []any) (bytes int64, depth int) {
	bytes = 24
	for _, x := range list {
		b, d := Size(x)
		bytes += b
		depth = max(depth, d)
	}
	return bytes, depth + 1
}

// CheckSize returns the size of a value that a client stores; one that is nested too deep is an error.
func CheckSize(what string, v any) (int64, error) {
	bytes, depth := Size(v)
	if depth > maxNesting {
		return 0, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("%s: nested %d deep; the limit is %d", what,
			depth, maxNesting)}
	}
	return bytes, nil
}
