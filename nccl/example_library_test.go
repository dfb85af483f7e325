package nccl_test

import (
	"bytes"
	"errors"
	"fmt"

	"go.millstream.dev/nccl"
)

// Whether NCCL and a GPU are there, and which NCCL it is.
func ExampleAvailable() {
	if err := nccl.Available(); err != nil {
		fmt.Println(err) // says what is missing
		return
	}
	lib, err := nccl.Library()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("NCCL", lib.Version, "of", lib.Path)
}

// The text of an id travels to the other ranks.
func ExampleUniqueID_MarshalText() {
	id := nccl.UniqueID{1, 2, 3} // from NewUniqueID
	text, err := id.MarshalText()
	if err != nil {
		fmt.Println(err)
		return
	}
	var same nccl.UniqueID
	if err := same.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(same == id)
	// Output: true
}

func ExampleDataType_Size() {
	for _, t := range []nccl.DataType{nccl.Uint8, nccl.BFloat16, nccl.Float64} {
		fmt.Println(t, t.Size())
	}
	fmt.Println(nccl.Sum, nccl.Version(22803))
	// Output:
	// uint8 1
	// bfloat16 2
	// float64 8
	// sum 2.28.3
}

// Errors of communicators tell what NCCL answered.
func ExampleError() {
	var err error = &nccl.Error{Op: "all-reduce", Result: nccl.RemoteError}
	fmt.Println(errors.Is(err, nccl.RemoteError))
	var e *nccl.Error
	fmt.Println(errors.As(err, &e), e.Op)
	// Output:
	// true
	// true all-reduce
}
