package wire

import (
	"bytes"
	"fmt"
)

// defaultShardSize is the length in bytes above which a frame is split (Dask's default of
// distributed.comm.shard, 64 MiB).
const defaultShardSize = 64 << 20

// split appends the shards of a frame: views of it with at most size bytes each. An empty frame is one shard.
func split(dst []Frame, f Frame, size int) []Frame {
	n := f.Len()
	if n <= size {
		return append(dst, f)
	}
	for at := 0; at < n; at += size {
		dst = append(dst, f.slice(at, min(at+size, n)))
	}
	return dst
}

// slice returns a view of a part of the frame, with its own reference.
func (f Frame) slice(from, to int) Frame {
	if f.buf != nil {
		f.buf = f.buf.Slice(from, to-from)
		return f
	}
	f.data = f.data[from:to] // merge uses its capacity
	return f
}

// merge joins shards into one frame. Shards that are adjacent in memory, such as those that arrived in one read, are
// joined without a copy.
func merge(shards []Frame) (Frame, error) {
	if len(shards) == 1 {
		return shards[0], nil
	}
	total, adjacent := 0, true
	var first, last []byte // of the shards that are not empty
	for _, s := range shards {
		if s.OnDevice() {
			return Frame{},
				fmt.Errorf("wire: frame in GPU memory is in %d parts: its sender must not split it",
					len(shards))
		}
		if s.Len() == 0 {
			continue
		}
		total += s.Len()
		adjacent = adjacent && s.buf == nil && (first == nil || follows(last, s.data))
		if last = s.data; first == nil {
			first = s.data
		}
	}
	if total == 0 {
		return Frame{}, nil
	}
	if adjacent && cap(first) >= total {
		return HeapFrame(first[:total]), nil
	}
	parts := make([][]byte, len(shards))
	for i, s := range shards {
		parts[i] = s.Bytes()
	}
	return HeapFrame(bytes.Join(parts, nil)), nil // does not clear memory first
}

// follows reports whether b, which is not empty, is directly after a in one allocation. It is if a's capacity extends
// over it, which never happens for two allocations.
func follows(a, b []byte) bool {
	return cap(a)-len(a) >= len(b) && &a[:len(a)+1][len(a)] == &b[0]
}
