package ucxxwire

import (
	"crypto/sha1" // the wire format fixes SHA-1; it is a check value, not a signature
	"encoding/binary"
	"math/bits"
	"strconv"
)

// pyHashModulus is the Mersenne prime by which CPython reduces integers when it hashes them on 64-bit machines.
const pyHashModulus = 1<<61 - 1

// hashTuple1 returns the first 8 bytes, big-endian, of the SHA-1 of the Python repr of the tuple (a,).
func hashTuple1(a uint64) uint64 {
	var buf [24]byte
	b := append(buf[:0], '(')
	b = strconv.AppendUint(b, a, 10)
	b = append(b, ',', ')')
	return sha64(b)
}

// hashTuple2 is hashTuple1 for the tuple (a, b), or (a, -b) when neg is set.
func hashTuple2(a, b uint64, neg bool) uint64 {
	var buf [48]byte
	r := append(buf[:0], '(')
	r = strconv.AppendUint(r, a, 10)
	r = append(r, ',', ' ')
	if neg {
		r = append(r, '-')
	}
	r = strconv.AppendUint(r, b, 10)
	r = append(r, ')')
	return sha64(r)
}

func sha64(b []byte) uint64 {
	sum := sha1.Sum(b)
	return binary.BigEndian.Uint64(sum[:8])
}

// UserTag returns the UCX tag that UCXX and UCX-Py use for a message sent with an explicit user tag and without
// force_tag: a hash of the endpoint's tag (that of the receiving side) and Python's hash() of the user's tag. For
// integer tags use PyHash or PyHashUint. Python randomizes the hash of str and bytes in every process, so such tags
// cannot match between two processes.
func UserTag(epTag uint64, hash int64) uint64 {
	if hash < 0 {
		return hashTuple2(epTag, -uint64(hash), true)
	}
	return hashTuple2(epTag, uint64(hash), false)
}

// PyHash returns Python's hash(n) for an integer on a 64-bit machine.
func PyHash(n int64) int64 {
	if n >= 0 {
		return PyHashUint(uint64(n))
	}
	// The magnitude of MinInt64 does not fit an int64, but two's complement negation in uint64 is correct.
	h := -PyHashUint(-uint64(n))
	if h == -1 {
		// CPython reserves -1 for errors, so -1 hashes to -2.
		return -2
	}
	return h
}

// PyHashUint returns Python's hash(n) for a non-negative integer on a 64-bit
// machine.
func PyHashUint(n uint64) int64 {
	_, r := bits.Div64(0, n, pyHashModulus)
	return int64(r)
}
