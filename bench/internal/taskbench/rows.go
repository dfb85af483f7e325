package taskbench

import (
	"encoding/binary"
	"fmt"

	"go.millstream.dev/internal/proc/rawmem"
)

// Rows of the shuffle have 32 bytes: a key and three numbers of 8 bytes each, like the frames of Dask. A partition has
// consecutive rows.
const (
	rowBytes = 32
	keySpace = 1 << 40
)

// makeRows generates a partition with random keys.
func makeRows(partition int64, rows int, seed uint64) []byte {
	rng := splitMix(seed + uint64(partition)*0x1000003)
	out := rawmem.Alloc(rows * rowBytes)
	for i := range rows {
		row := out[i*rowBytes : (i+1)*rowBytes]
		binary.LittleEndian.PutUint64(row, rng.next()%keySpace)
		binary.LittleEndian.PutUint64(row[8:], uint64(i))
		binary.LittleEndian.PutUint64(row[16:], uint64(partition))
		binary.LittleEndian.PutUint64(row[24:], rng.next())
	}
	return out
}

// keyOf returns the key of a row.
func keyOf(row []byte) uint64 { return binary.LittleEndian.Uint64(row) }

// hashOf returns the partition of a key. Consecutive keys are distributed.
func hashOf(key uint64, parts int) int {
	key = (key ^ key>>31) * 0x9e3779b97f4a7c15
	return int((key >> 32) * uint64(parts) >> 32)
}

// splitRows copies the rows of a partition into one block per target, which share one allocation.
func splitRows(rows []byte, parts int) [][]byte {
	n := len(rows) / rowBytes
	at := make([]int, parts+1)
	to := make([]uint16, n)
	for i := range n {
		h := hashOf(keyOf(rows[i*rowBytes:]), parts)
		to[i] = uint16(h)
		at[h+1]++
	}
	for i := range parts {
		at[i+1] += at[i]
	}
	out := rawmem.Alloc(n * rowBytes)
	next := make([]int, parts)
	copy(next, at)
	for i := range n {
		h := to[i]
		copy(out[next[h]*rowBytes:][:rowBytes], rows[i*rowBytes:][:rowBytes])
		next[h]++
	}
	blocks := make([][]byte, parts)
	for i := range blocks {
		blocks[i] = out[at[i]*rowBytes : at[i+1]*rowBytes : at[i+1]*rowBytes]
	}
	return blocks
}

// joinRows concatenates blocks.
func joinRows(blocks [][]byte) []byte {
	var n int
	for _, b := range blocks {
		n += len(b)
	}
	out := rawmem.Alloc(n)[:0]
	for _, b := range blocks {
		out = append(out, b...)
	}
	return out
}

// summary is a checksum of partitions.
type summary struct {
	// Rows is the number of rows, Sum the sum of their keys.
	Rows int64
	Sum  uint64
}

// summarize reads every row. With a target, all of them must belong to it.
func summarize(rows []byte, target, parts int) (summary, error) {
	var s summary
	if len(rows)%rowBytes != 0 {
		return s, fmt.Errorf("%d bytes are not a multiple of the row size", len(rows))
	}
	for i := 0; i < len(rows); i += rowBytes {
		k := keyOf(rows[i:])
		if target >= 0 && hashOf(k, parts) != target {
			return s, fmt.Errorf("row %d of partition %d belongs to %d", i/rowBytes, target, hashOf(k, parts))
		}
		s.Rows++
		s.Sum += k
	}
	return s, nil
}

func (s summary) plus(o summary) summary { return summary{s.Rows + o.Rows, s.Sum + o.Sum} }
