package parquet

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var errRLE = errors.New("invalid run-length encoding")

// rleReader decodes the hybrid of run lengths and bit-packed groups of values of up to 32 bits. The buffer has slack
// bytes after its end.
type rleReader struct {
	b     []byte // with slack
	end   int
	at    int
	width uint
	run   int    // values left of a run
	value uint32 // of the run
	pack  int    // values left of bit-packed groups
	bit   int    // position of the next of these
}

// reset begins with the data b[:end]; b has slack bytes more.
func (r *rleReader) reset(b []byte, end int, width uint) {
	*r = rleReader{b: b, end: end, width: width}
}

// next reads the head of the next run. It returns an error at the end of the data.
func (r *rleReader) next() error {
	head, n := binary.Uvarint(r.b[r.at:r.end])
	if n <= 0 || head > 1<<32 {
		return errRLE
	}
	r.at += n
	if head&1 == 0 {
		size := int(r.width+7) / 8
		if r.run = int(head >> 1); r.end-r.at < size || r.run == 0 {
			return errRLE
		}
		r.value = 0
		for i := range size {
			r.value |= uint32(r.b[r.at+i]) << (8 * i)
		}
		r.at += size
		if bits.Len32(r.value) > int(r.width) {
			return errRLE
		}
		return nil
	}
	groups := int(head >> 1)
	size := groups * int(r.width)
	if groups == 0 {
		return errRLE
	}
	if size > r.end-r.at { // the last group may be incomplete
		if r.width == 0 || r.end == r.at {
			return errRLE
		}
		r.pack = (r.end - r.at) * 8 / int(r.width)
		size = r.end - r.at
	} else {
		r.pack = groups * 8
	}
	r.bit = r.at * 8
	r.at += size
	if r.pack == 0 {
		return errRLE
	}
	return nil
}

// read fills out.
func (r *rleReader) read(out []uint32) error {
	for len(out) > 0 {
		switch {
		case r.run > 0:
			n := min(r.run, len(out))
			for i := range out[:n] {
				out[i] = r.value
			}
			r.run -= n
			out = out[n:]
		case r.pack > 0:
			n := min(r.pack, len(out))
			r.unpack(out[:n])
			r.pack -= n
			out = out[n:]
		default:
			if err := r.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack decodes bit-packed values. Loads of eight bytes may reach into the slack.
func (r *rleReader) unpack(out []uint32) {
	w := int(r.width)
	mask := uint64(1)<<r.width - 1
	bit := r.bit
	b := r.b
	r.bit += w * len(out)
	if w == 0 {
		clear(out)
		return
	}
	for len(out) >= 4 && w <= 14 { // four values in one load
		v := binary.LittleEndian.Uint64(b[bit>>3:]) >> (bit & 7)
		out[0] = uint32(v & mask)
		out[1] = uint32(v >> w & mask)
		out[2] = uint32(v >> (2 * w) & mask)
		out[3] = uint32(v >> (3 * w) & mask)
		out = out[4:]
		bit += 4 * w
	}
	for len(out) >= 2 && w <= 28 {
		v := binary.LittleEndian.Uint64(b[bit>>3:]) >> (bit & 7)
		out[0] = uint32(v & mask)
		out[1] = uint32(v >> w & mask)
		out = out[2:]
		bit += 2 * w
	}
	for i := range out {
		out[i] = uint32(binary.LittleEndian.Uint64(b[bit>>3:]) >> (bit & 7) & mask)
		bit += w
	}
}
