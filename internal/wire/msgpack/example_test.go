package msgpack_test

import (
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
)

// Build a tree of values.
func ExampleDecode() {
	b, _ := msgpack.Append(nil, msgpack.MapOf("op", "get", []any{"x", 1}, "tuple keys are fine"))
	v, err := msgpack.Decode(b)
	fmt.Println(v, err)
	// Output: [{op get} {[x 1] tuple keys are fine}] <nil>
}

// Walk over bytes whose shape is known.
func ExampleReader() {
	b, _ := msgpack.Append(nil, msgpack.MapOf("key", "x-1", "nbytes", 28, "who", nil))
	r := msgpack.NewReader(b)
	n, _ := r.ReadMapLen()
	for range n {
		name, _ := r.ReadStringBytes()
		if string(name) == "nbytes" {
			size, err := r.ReadInt()
			fmt.Println(size, err)
			continue
		}
		if err := r.Skip(); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(r.End())
	// Output:
	// 28 <nil>
	// <nil>
}

// Write a value piece by piece.
func ExampleAppendMapHeader() {
	b := msgpack.AppendMapHeader(nil, 1)
	b = msgpack.AppendString(b, "run_id")
	b = msgpack.AppendInt(b, 300)
	fmt.Printf("%x\n", b)
	// Output: 81a672756e5f6964cd012c
}

// Task keys have one form, so that equal keys have equal bytes.
func ExampleReader_ReadKey() {
	r := msgpack.NewReader([]byte{0x92, 0xd9, 1, 'x', 0xcd, 0, 5}) // ("x", 5), wastefully
	key, err := r.ReadKey(nil)
	fmt.Printf("%x %v\n", key, err)
	// Output: 92a17805 <nil>
}
