package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"go.millstream.dev/client"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// seen is what a task says of an array that it was given.
type seen struct {
	Pid    int64
	SHA256 string
	Class  string
	DType  string
	Shape  []int64
	// Memory is the kind of memory that the driver says it is.
	Memory string
}

// pattern are bytes that depend on the seed and on their place.
func pattern(seed int64, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func shaOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// makeArray is a device array of n bytes. The copy onto the device is still under way when the task returns: whoever
// uses the result next waits for the array's event.
func makeArray(ctx context.Context, n, seed int64) (*wire.DeviceArray, error) {
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, err
	}
	host, err := d.Pinned.Alloc(ctx, int(n))
	if err != nil {
		return nil, err
	}
	defer host.Release()
	copy(host.Bytes(), pattern(seed, int(n)))
	b, err := d.Memory.Alloc(ctx, int(n))
	if err != nil {
		return nil, err
	}
	if _, err := cuda.StreamOf(d.Stream).Copy(b, host); err != nil {
		b.Release()
		return nil, err
	}
	return wire.NewDeviceArray[uint8](b)
}

// look says what an array is, and where.
func look(ctx context.Context, a *wire.DeviceArray) (seen, error) {
	s := seen{Pid: int64(os.Getpid()), Class: a.Class, DType: string(a.DType), Memory: "heap"}
	for _, n := range a.Shape {
		s.Shape = append(s.Shape, int64(n))
	}
	data := make([]byte, a.Frame.Len())
	if !a.Frame.OnDevice() {
		copy(data, a.Frame.Bytes())
	} else {
		at, err := cuda.Pointer(a.Buffer().Addr())
		if err != nil {
			return s, err
		}
		s.Memory = at.Kind.String()
		if err := cuda.CopyToHost(ctx, data, a.Buffer()); err != nil {
			return s, err
		}
	}
	s.SHA256 = shaOf(data)
	return s, nil
}

// The functions of the tests' tasks.
var (
	makeFunc = client.Func2("gputest.make", makeArray)
	lookFunc = client.Func("gputest.look", look)
	sameFunc = client.Func("gputest.same", func(_ context.Context, a *wire.DeviceArray) (*wire.DeviceArray, error) {
		return a, nil
	})
	// manyFunc returns a list of arrays, as a partition of columns is one.
	manyFunc = client.Func2("gputest.many", func(ctx context.Context, k, n int64) ([]*wire.DeviceArray, error) {
		out := make([]*wire.DeviceArray, k)
		for i := range out {
			var err error
			if out[i], err = makeArray(ctx, n, int64(i)); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
	lookManyFunc = client.Func("gputest.look-many",
		func(ctx context.Context, list []*wire.DeviceArray) ([]seen, error) {
			var out []seen
			for _, a := range list {
				s, err := look(ctx, a)
				if err != nil {
					return nil, err
				}
				out = append(out, s)
			}
			return out, nil
		})
	// A buffer is a task value as well.
	rawFunc = client.Func2("gputest.raw", func(ctx context.Context, n, seed int64) (*mem.Buffer, error) {
		a, err := makeArray(ctx, n, seed)
		if err != nil {
			return nil, err
		}
		return a.Buffer(), nil
	})
	copyFunc = client.Func("gputest.copy", func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		out, err := d.Memory.Alloc(ctx, b.Len())
		if err != nil {
			return nil, err
		}
		if _, err := cuda.StreamOf(d.Stream).Copy(out, b); err != nil {
			out.Release()
			return nil, err
		}
		return out, nil
	})
	lookRawFunc = client.Func("gputest.look-raw", func(ctx context.Context, b *mem.Buffer) (seen, error) {
		return look(ctx, &wire.DeviceArray{Class: wire.RMMBuffer, DType: wire.Uint8, Shape: []int{b.Len()},
			Frame: wire.BufferFrame(b)})
	})
	// outFunc is how many bytes of its device memory a worker has handed out.
	outFunc = client.Func("gputest.out", func(ctx context.Context, _ int64) (int64, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return 0, err
		}
		c, ok := d.Memory.(interface{ Used() int64 })
		if !ok {
			return 0, fmt.Errorf("a %T does not count", d.Memory)
		}
		return c.Used(), nil
	})
)
