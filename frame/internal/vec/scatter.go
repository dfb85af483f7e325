package vec

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// scatter divides the rows of columns into buckets. It reads every column once.
type scatter struct {
	buckets []uint16 // of the rows
	counts  []int    // of the rows in each bucket
	rows    [][]int32
}

// newScatter returns the division of rows into n buckets, at most 65,536, by their hashes.
func newScatter(hashes []uint64, n int) *scatter {
	s := &scatter{buckets: raw[uint16](len(hashes)), counts: make([]int, n)}
	for i, h := range hashes {
		p := Bucket(h, n)
		s.buckets[i] = uint16(p)
		s.counts[p]++
	}
	return s
}

// column returns the values of a column in each bucket.
func (s *scatter) column(a arrow.Array) ([]arrow.Array, error) {
	if valid, _ := Validity(a); valid == nil {
		switch t := a.DataType(); t.ID() {
		case arrow.STRING, arrow.BINARY:
			return s.bytes(a), nil
		case arrow.INT64, arrow.UINT64, arrow.FLOAT64, arrow.TIMESTAMP, arrow.DATE64, arrow.TIME64, arrow.DURATION:
			return scatterFixed[uint64](s, a), nil
		case arrow.INT32, arrow.UINT32, arrow.FLOAT32, arrow.DATE32, arrow.TIME32:
			return scatterFixed[uint32](s, a), nil
		case arrow.INT16, arrow.UINT16, arrow.FLOAT16:
			return scatterFixed[uint16](s, a), nil
		case arrow.INT8, arrow.UINT8:
			return scatterFixed[uint8](s, a), nil
		case arrow.DECIMAL128:
			return scatterFixed[[2]uint64](s, a), nil
		}
	}
	out := make([]arrow.Array, len(s.counts))
	for i, rows := range s.numbers() {
		var err error
		if out[i], err = (selection{rows: rows}).take(a); err != nil {
			Release(out)
			return nil, err
		}
	}
	return out, nil
}

// numbers returns the numbers of the rows of each bucket.
func (s *scatter) numbers() [][]int32 {
	if s.rows == nil {
		all, at := raw[int32](len(s.buckets)), make([]int, len(s.counts))
		s.rows = make([][]int32, len(s.counts))
		from := 0
		for i, n := range s.counts {
			s.rows[i], at[i] = all[from:from+n], from
			from += n
		}
		for i, p := range s.buckets {
			all[at[p]] = int32(i)
			at[p]++
		}
	}
	return s.rows
}

// lane is the memory of the values of a bucket, and the number of those that are set.
type lane[T any] struct {
	to []T
	n  int
}

func scatterFixed[T any](s *scatter, a arrow.Array) []arrow.Array {
	lanes := make([]lane[T], len(s.counts))
	for i, n := range s.counts {
		lanes[i].to = raw[T](n)
	}
	from := Values[T](a)[:len(s.buckets)]
	for i, p := range s.buckets {
		l := &lanes[p]
		l.to[l.n] = from[i]
		l.n++
	}
	out := make([]arrow.Array, len(lanes))
	for i, l := range lanes {
		out[i] = Make(a.DataType(), len(l.to), 0, []*memory.Buffer{nil, Buffer(l.to)})
	}
	return out
}

// bytes divides texts or bytes with offsets of 32 bits.
func (s *scatter) bytes(a arrow.Array) []arrow.Array {
	type textLane struct {
		ends []int32 // after the first offset
		data []byte
		n    int
		size int
	}
	offsets, data := Offsets[int32](a), Data(a)
	lanes := make([]textLane, len(s.counts))
	out := make([]arrow.Array, len(lanes))
	buffers := make([][]int32, len(lanes))
	for i, p := range s.buckets {
		lanes[p].size += int(offsets[i+1] - offsets[i])
	}
	for i, n := range s.counts {
		buffers[i] = raw[int32](n + 1)
		buffers[i][0] = 0
		lanes[i].ends, lanes[i].data, lanes[i].size = buffers[i][1:], raw[byte](lanes[i].size), 0
	}
	for i, p := range s.buckets {
		l := &lanes[p]
		from := data[offsets[i]:offsets[i+1]]
		to := l.data[l.size:][:len(from)]
		if len(from) >= 8 && len(from) <= 16 {
			copyShort(to, from)
		} else {
			copy(to, from)
		}
		l.size += len(from)
		l.ends[l.n] = int32(l.size)
		l.n++
	}
	for i, l := range lanes {
		out[i] = Make(a.DataType(), len(l.ends), 0,
			[]*memory.Buffer{nil, Buffer(buffers[i]), memory.NewBufferBytes(l.data)})
	}
	return out
}

// MaxBuckets is the largest number of buckets of Partition and Split.
const MaxBuckets = math.MaxUint16 + 1
