package wire_test

import (
	"fmt"

	"go.millstream.dev/wire"
)

// Send an array, and read it without a copy.
func ExampleEncode() {
	array := wire.NewNDArray([]float64{1, 2, 3, 4}, 2, 2)
	m, err := wire.Encode(wire.NewDict("op", "put", "data", wire.Serialize{Value: array}), wire.EncodeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	data, _ := v.(wire.Dict).Get("data")
	got := data.(*wire.NDArray)
	numbers, err := wire.Elements[float64](got)
	fmt.Println(got.DType, got.Shape, numbers, err)
	// Output: <f8 [2 2] [1 2 3 4] <nil>
}

// A scheduler passes values on that it has not opened.
func ExampleSerialized() {
	m, _ := wire.Encode(wire.NewDict("data", wire.Serialize{Value: []byte("secret")}), wire.EncodeOptions{})
	v, _ := wire.Decode(m, wire.DecodeOptions{Keep: true})
	data, _ := v.(wire.Dict).Get("data")
	fmt.Printf("%T\n", data)

	on, _ := wire.Encode(wire.NewDict("op", "here", "it-is", data), wire.EncodeOptions{})
	v, _ = wire.Decode(on, wire.DecodeOptions{})
	it, _ := v.(wire.Dict).Get("it-is")
	fmt.Printf("%s\n", it)
	// Output:
	// *wire.Serialized
	// secret
}

// Frames larger than ShardSize are split, and compressed where that pays.
func ExampleEncodeOptions() {
	m, _ := wire.Encode(wire.Serialize{Value: make([]byte, 50_000)},
		wire.EncodeOptions{Compression: "lz4", ShardSize: 20_000})
	fmt.Println(len(m.Frames), m.Size() < 1000)
	v, err := wire.Decode(m, wire.DecodeOptions{})
	fmt.Println(len(v.([]byte)), err)
	// Output:
	// 5 true
	// 50000 <nil>
}

// Message bodies are ordered maps whose keys may be anything that Python can hash.
func ExampleNewDict() {
	d := wire.NewDict("op", "who_has", "keys", wire.Set{"a"})
	d.Set("reply", true)
	op, ok := d.Get("op")
	fmt.Println(op, ok, len(d))
	// Output: who_has true 3
}
