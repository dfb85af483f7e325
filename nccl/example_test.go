package nccl_test

import (
	"context"
	"log"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// sumOverGPUs is one rank. The id was made by one of them and sent to the others.
func sumOverGPUs(ctx context.Context, id nccl.UniqueID, rank, size int, values *mem.Buffer) error {
	c, err := nccl.Init(ctx, nccl.Config{Device: rank}, id, rank, size)
	if err != nil {
		return err
	}
	defer c.Shutdown(ctx)
	stream, err := cuda.NewStream(rank, cuda.StreamConfig{})
	if err != nil {
		return err
	}
	defer stream.Close()
	w, err := c.AllReduce(ctx, stream, values, values, nccl.Float32, nccl.Sum)
	if err != nil {
		return err
	}
	return w.Wait(ctx) // or let another stream wait for w.Event()
}

// Without "Output" it is compiled and not run: it needs a GPU.
func Example() {
	ctx := context.Background()
	id, err := nccl.NewUniqueID()
	if err != nil {
		log.Fatal(err)
	}
	values, err := cuda.NewDeviceResource(0).Alloc(ctx, 4<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer values.Release()
	if err := sumOverGPUs(ctx, id, 0, 1, values); err != nil {
		log.Fatal(err)
	}
}
