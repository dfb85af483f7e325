//go:build chaos

package chaos

import (
	"context"

	"go.millstream.dev/client"
)

// block makes a result of so many bytes, which do not compress; digest reduces one to a number.
var block = client.Func2("chaos.block", func(_ context.Context, seed uint64, size int) ([]byte, error) {
	return makeBlock(seed, size), nil
})

var digest = client.Func("chaos.digest", func(_ context.Context, b []byte) (uint64, error) {
	return digestOf(b), nil
})

func makeBlock(seed uint64, size int) []byte {
	b := make([]byte, size)
	for i, h := 0, seed; i+8 <= size; i += 8 {
		h = mix(h, uint64(i))
		for k := range 8 {
			b[i+k] = byte(h >> (8 * k))
		}
	}
	return b
}

func digestOf(b []byte) uint64 {
	h := uint64(len(b))
	for i := 0; i+8 <= len(b); i += 8 {
		var v uint64
		for k := range 8 {
			v |= uint64(b[i+k]) << (8 * k)
		}
		h = mix(h, v)
	}
	return h
}
