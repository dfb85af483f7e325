package ucx_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// A tensor of another library, in host memory, is received into without a copy.
func ExampleFromTensor() {
	ctx, cancel := exampleContext()
	defer cancel()
	a, b, done := connected(ctx)
	defer done()
	memory := value(mem.NewMmap(mem.MmapConfig{}).Alloc(ctx, 8)) // the library's
	defer memory.Release()

	v := value(ucx.FromTensor(ucx.Tensor{Data: uint64(memory.Addr()), DeviceType: 1, Code: 1, Bits: 8, Lanes: 1,
		Shape: []int64{2, 4}}))
	fmt.Println(v.Len(), "bytes of", v.Kind(), "memory")
	must(a.Send(ctx, ucx.Bytes([]byte("tensor")), 1))
	info := value(b.Recv(ctx, v, 1, ucx.FullMask))
	fmt.Printf("%s\n", memory.Bytes()[:info.Len])
	// Output:
	// 8 bytes of host memory
	// tensor
}

// An array of CuPy, cuDF or PyTorch on GPU 0, by its __cuda_array_interface__.
func ExampleFromArrayInterface() {
	var a ucx.ArrayInterface
	must(json.Unmarshal([]byte(`{"shape": [1000], "typestr": "<f4", "data": [4096, false], "version": 3}`), &a))
	v := value(ucx.FromArrayInterface(a, 0))
	fmt.Println(v.Len(), "bytes of", v.Kind(), "memory")

	a.Strides = []int64{8} // every other element
	_, err := ucx.FromArrayInterface(a, 0)
	fmt.Println(errors.Is(err, ucx.ErrNotContiguous))
	// Output:
	// 4000 bytes of device memory
	// true
}
