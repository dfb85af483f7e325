package nccl_test

import (
	"context"
	"log"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// wait waits for an operation that was enqueued, and ends the example when it failed.
func wait(ctx context.Context, w *nccl.Work, err error) {
	if err == nil {
		err = w.Wait(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// rankOf is what each rank of the examples has: a communicator, a stream, and n elements of every rank.
type rankOf struct {
	*nccl.Comm
	stream   *cuda.Stream
	one, all *mem.Buffer // of one rank, of all ranks
}

func exampleRank(ctx context.Context) rankOf {
	id, err := nccl.NewUniqueID() // by one rank, which sends it to the others
	if err != nil {
		log.Fatal(err)
	}
	c, err := nccl.Init(ctx, nccl.Config{Device: 0}, id, 0, 1)
	if err != nil {
		log.Fatal(err)
	}
	s, err := cuda.NewStream(0, cuda.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	memory := cuda.NewDeviceResource(0)
	one, err := memory.Alloc(ctx, 4<<10)
	if err != nil {
		log.Fatal(err)
	}
	all, err := memory.Alloc(ctx, c.Size()*4<<10)
	if err != nil {
		log.Fatal(err)
	}
	return rankOf{c, s, one, all}
}

func (r rankOf) close(ctx context.Context) {
	r.one.Release()
	r.all.Release()
	_ = r.stream.Close()
	if err := r.Shutdown(ctx); err != nil { // waits for the other ranks; Close does not
		log.Print(err)
	}
}

// The reductions. All ranks call them in the same order.
func ExampleComm_AllReduce() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	w, err := r.AllReduce(ctx, r.stream, r.one, r.one, nccl.Float32, nccl.Sum)
	wait(ctx, w, err)
	w, err = r.Reduce(ctx, r.stream, r.one, r.one, nccl.Float32, nccl.Max, 0)
	wait(ctx, w, err)
	w, err = r.ReduceScatter(ctx, r.stream, r.all, r.one, nccl.Float32, nccl.Avg)
	wait(ctx, w, err)
}

// The collectives that move data. A root gives a rank its part, or gets it.
func ExampleComm_AllGather() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	const root = 0
	w, err := r.Broadcast(ctx, r.stream, r.one, r.one, nccl.Float32, root)
	wait(ctx, w, err)
	w, err = r.AllGather(ctx, r.stream, r.one, r.all, nccl.Float32)
	wait(ctx, w, err)
	w, err = r.Gather(ctx, r.stream, r.one, r.all, nccl.Float32, root)
	wait(ctx, w, err)
	w, err = r.Scatter(ctx, r.stream, r.all, r.one, nccl.Float32, root)
	wait(ctx, w, err)
	w, err = r.AllToAll(ctx, r.stream, r.all, r.all, nccl.Float32)
	wait(ctx, w, err)
}

// Each rank sends to the next one and receives from the one before: as one group, since either would wait for
// the other.
func ExampleComm_Group() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	next, previous := (r.Rank()+1)%r.Size(), (r.Rank()+r.Size()-1)%r.Size()
	into := r.all.Slice(0, r.one.Len())
	defer into.Release()
	w, err := r.Group().Send(r.one, nccl.Float32, next).Recv(into, nccl.Float32, previous).Run(ctx, r.stream)
	wait(ctx, w, err)
}

// One message from rank 0 to rank 1.
func ExampleComm_Send() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	switch r.Rank() {
	case 0:
		w, err := r.Send(ctx, r.stream, r.one, nccl.Uint8, 1)
		wait(ctx, w, err)
	case 1:
		w, err := r.Recv(ctx, r.stream, r.one, nccl.Uint8, 0)
		wait(ctx, w, err)
	}
}

// A weighted sum: each rank multiplies its elements by a factor of its own.
func ExampleComm_PreMulSum() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	op, err := r.PreMulSum(ctx, nccl.Float32, 0.5)
	if err != nil {
		log.Fatal(err)
	}
	w, err := r.AllReduce(ctx, r.stream, r.one, r.one, nccl.Float32, op)
	wait(ctx, w, err)
	if err := r.FreeOp(ctx, op); err != nil {
		log.Fatal(err)
	}
}

// The factor as the bytes of an element, for types that Go has no name for.
func ExampleComm_PreMulSumOf() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	half := []byte{0x00, 0x38} // 0.5 as a float16
	op, err := r.PreMulSumOf(ctx, nccl.Float16, half)
	if err != nil {
		log.Fatal(err)
	}
	defer r.FreeOp(ctx, op)
	w, err := r.AllReduce(ctx, r.stream, r.one, r.one, nccl.Float16, op)
	wait(ctx, w, err)
}

// Work on another stream waits for the operation on the device, and the program does not.
func ExampleWork_Event() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	other, err := cuda.NewStream(0, cuda.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	w, err := r.AllReduce(ctx, r.stream, r.one, r.one, nccl.Float32, nccl.Sum)
	if err != nil {
		log.Fatal(err)
	}
	if err := other.WaitEvent(w.Event()); err != nil {
		log.Fatal(err)
	}
	if err := r.Check(); err != nil { // from time to time, as Wait is not called
		log.Fatal(err)
	}
}
