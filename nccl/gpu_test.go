package nccl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// rankVariable makes the test binary one rank of a communicator instead of a test.
const rankVariable = "NCCL_TEST_RANK"

func TestMain(m *testing.M) {
	if role := os.Getenv(rankVariable); role != "" {
		if err := runRank(role); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The driver keeps descriptors for the life of the process: goroutines alone.
	os.Exit(leak.Main(m, leak.IgnoreFD("")))
}

func requireGPU(t testing.TB) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: " + err.Error())
	}
	if err := nccl.Available(); err != nil {
		t.Fatal(err) // a machine with a GPU has NCCL for these tests
	}
}

// ranks runs n processes on the one GPU, each a rank of one communicator, and returns what they
// print. NCCL takes processes with different host ids for different machines, and then does not
// mind that they share the GPU.
func ranks(t *testing.T, n int, role string, mayFail bool) []string {
	t.Helper()
	id, err := nccl.NewUniqueID()
	if err != nil {
		t.Fatal(err)
	}
	text, err := id.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	outs, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), rankVariable+"="+role, fmt.Sprintf("NCCL_HOSTID=rank-%d", rank),
				"NCCL_SOCKET_IFNAME=lo",
				"NCCL_TEST_ID="+string(text), "NCCL_TEST_PLACE="+strconv.Itoa(rank), "NCCL_TEST_SIZE="+strconv.Itoa(n))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			errs[rank] = cmd.Run()
			outs[rank] = out.String()
		})
	}
	wg.Wait()
	for rank := range n {
		if errs[rank] != nil && !mayFail {
			t.Errorf("rank %d: %v\n%s", rank, errs[rank], outs[rank])
		}
	}
	return outs
}

func runRank(role string) error {
	var id nccl.UniqueID
	if err := id.UnmarshalText([]byte(os.Getenv("NCCL_TEST_ID"))); err != nil {
		return err
	}
	rank, err := strconv.Atoi(os.Getenv("NCCL_TEST_PLACE"))
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(os.Getenv("NCCL_TEST_SIZE"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := nccl.Init(ctx, nccl.Config{}, id, rank, size)
	if err != nil {
		return err
	}
	s, err := cuda.NewStream(0, cuda.StreamConfig{})
	if err != nil {
		return err
	}
	defer s.Close()
	pool, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{})
	if err != nil {
		return err
	}
	r := &rig{ctx, c, s, pool}
	switch role {
	case "all":
		err = r.everything()
	case "split":
		err = r.split()
	case "death":
		return r.death()
	case "cancel":
		return r.cancel()
	}
	if err != nil {
		return err
	}
	if err := c.Shutdown(ctx); err != nil {
		return err
	}
	if err := c.Shutdown(ctx); err != nil || !errors.Is(c.Err(), nccl.ErrClosed) {
		return fmt.Errorf("closed twice: %v, %v", err, c.Err())
	}
	return pool.Close()
}

type rig struct {
	ctx  context.Context
	c    *nccl.Comm
	s    *cuda.Stream
	pool *mem.Pool
}

// put copies numbers of a type to the device.
func (r *rig) put(t nccl.DataType, values []float64) (*mem.Buffer, error) {
	raw := make([]byte, 0, len(values)*t.Size())
	for _, v := range values {
		switch t {
		case nccl.Int8, nccl.Uint8:
			raw = append(raw, byte(int64(v)))
		case nccl.Int32, nccl.Uint32:
			raw = binary.NativeEndian.AppendUint32(raw, uint32(int64(v)))
		case nccl.Int64, nccl.Uint64:
			raw = binary.NativeEndian.AppendUint64(raw, uint64(int64(v)))
		case nccl.Float32:
			raw = binary.NativeEndian.AppendUint32(raw, math.Float32bits(float32(v)))
		case nccl.Float64:
			raw = binary.NativeEndian.AppendUint64(raw, math.Float64bits(v))
		case nccl.BFloat16:
			raw = binary.NativeEndian.AppendUint16(raw, uint16(math.Float32bits(float32(v))>>16))
		case nccl.Float16:
			raw = binary.NativeEndian.AppendUint16(raw, half(v))
		}
	}
	b, err := r.pool.Alloc(r.ctx, len(raw))
	if err != nil {
		return nil, err
	}
	return b, cuda.CopyFromHost(r.ctx, b, raw)
}

// half writes a small whole number as a float16.
func half(v float64) uint16 {
	bits := math.Float32bits(float32(v))
	if v == 0 {
		return 0
	}
	return uint16(bits>>16&0x8000 | uint32(int32(bits>>23&0xff)-127+15)<<10 | bits>>13&0x3ff)
}

func unhalf(h uint16) float64 {
	if h&0x7fff == 0 {
		return 0
	}
	return float64(math.Float32frombits(uint32(h)&0x8000<<16 | (uint32(h)>>10&0x1f-15+127)<<23 | uint32(h)&0x3ff<<13))
}

// get copies numbers back.
func (r *rig) get(t nccl.DataType, b *mem.Buffer) ([]float64, error) {
	raw := make([]byte, b.Len())
	if err := cuda.CopyToHost(r.ctx, raw, b); err != nil {
		return nil, err
	}
	var values []float64
	for ; len(raw) > 0; raw = raw[t.Size():] {
		switch t {
		case nccl.Int8:
			values = append(values, float64(int8(raw[0])))
		case nccl.Uint8:
			values = append(values, float64(raw[0]))
		case nccl.Int32:
			values = append(values, float64(int32(binary.NativeEndian.Uint32(raw))))
		case nccl.Uint32:
			values = append(values, float64(binary.NativeEndian.Uint32(raw)))
		case nccl.Int64:
			values = append(values, float64(int64(binary.NativeEndian.Uint64(raw))))
		case nccl.Uint64:
			values = append(values, float64(binary.NativeEndian.Uint64(raw)))
		case nccl.Float32:
			values = append(values, float64(math.Float32frombits(binary.NativeEndian.Uint32(raw))))
		case nccl.Float64:
			values = append(values, math.Float64frombits(binary.NativeEndian.Uint64(raw)))
		case nccl.BFloat16:
			values = append(values, float64(math.Float32frombits(uint32(binary.NativeEndian.Uint16(raw))<<16)))
		case nccl.Float16:
			values = append(values, unhalf(binary.NativeEndian.Uint16(raw)))
		}
	}
	return values, nil
}

// check runs one operation: values of this rank in, the wanted ones of this rank out.
func (r *rig) check(what string, t nccl.DataType, in, want []float64, recvLen int,
	call func(send, recv *mem.Buffer) (*nccl.Work, error)) error {
	send, err := r.put(t, in)
	if err != nil {
		return err
	}
	recv, err := r.pool.Alloc(r.ctx, recvLen*t.Size())
	if err != nil {
		return err
	}
	w, err := call(send, recv)
	if err != nil {
		return fmt.Errorf("%s of %v: %w", what, t, err)
	}
	send.Release() // the work holds it
	if err := w.Wait(r.ctx); err != nil {
		return fmt.Errorf("%s of %v: %w", what, t, err)
	}
	defer recv.Release()
	if want == nil {
		return nil // this rank gets nothing
	}
	got, err := r.get(t, recv)
	if err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s of %v on rank %d: got %v, want %v", what, t, r.c.Rank(), got, want)
	}
	return nil
}

var numberTypes = []nccl.DataType{nccl.Int8, nccl.Uint8, nccl.Int32, nccl.Uint32, nccl.Int64, nccl.Uint64, nccl.Float16,
	nccl.Float32, nccl.Float64, nccl.BFloat16}

// of is what rank has at place i: small, so that every type holds sums and products of it.
func of(rank, i int) float64 { return float64((rank + 1) * (i%3 + 1) % 5) }

func (r *rig) everything() error {
	const n = 6 // elements of a part
	me, size := r.c.Rank(), r.c.Size()
	list := func(m int, f func(i int) float64) []float64 {
		l := make([]float64, m)
		for i := range l {
			l[i] = f(i)
		}
		return l
	}
	mine := list(n, func(i int) float64 { return of(me, i) })
	whole := list(n*size, func(i int) float64 { return of(me, i) })
	for _, t := range numberTypes {
		for i, f := range []func(a, b float64) float64{
			func(a, b float64) float64 { return a + b }, func(a, b float64) float64 { return a * b }, math.Max,
			math.Min,
		} {
			op := nccl.Op(i) // every rank in this order
			fold := func(i int) float64 {
				v := of(0, i)
				for rank := 1; rank < size; rank++ {
					v = f(v, of(rank, i))
				}
				return v
			}
			if err := r.check("all-reduce "+op.String(), t, mine, list(n, fold), n,
				func(a, b *mem.Buffer) (*nccl.Work, error) {
					return r.c.AllReduce(r.ctx, r.s, a, b, t,
						op)
				}); err != nil {
				return err
			}
			root := size - 1
			var want []float64
			if me == root {
				want = list(n, fold)
			}
			if err := r.check("reduce "+op.String(), t, mine, want, n, func(a, b *mem.Buffer) (*nccl.Work, error) {
				return r.c.Reduce(r.ctx, r.s, a, b, t, op, root)
			}); err != nil {
				return err
			}
			if err := r.check("reduce-scatter "+op.String(), t, whole, list(n, func(i int) float64 {
				return fold(me*n + i)
			}), n, func(a, b *mem.Buffer) (*nccl.Work, error) {
				return r.c.ReduceScatter(r.ctx, r.s, a, b, t, op)
			}); err != nil {
				return err
			}
		}
		gathered := list(n*size, func(i int) float64 { return of(i/n, i%n) })
		if err := r.check("all-gather", t, mine, gathered, n*size, func(a, b *mem.Buffer) (*nccl.Work, error) {
			return r.c.AllGather(r.ctx, r.s, a, b, t)
		}); err != nil {
			return err
		}
		for root := range size {
			if err := r.check("broadcast", t, mine, list(n, func(i int) float64 { return of(root, i) }), n,
				func(a, b *mem.Buffer) (*nccl.Work, error) {
					return r.c.Broadcast(r.ctx, r.s, a, b, t,
						root)
				}); err != nil {
				return err
			}
			var want []float64
			if me == root {
				want = gathered
			}
			if err := r.check("gather", t, mine, want, n*size, func(a, b *mem.Buffer) (*nccl.Work, error) {
				return r.c.Gather(r.ctx, r.s, a, b, t, root)
			}); err != nil {
				return err
			}
			if err := r.check("scatter", t, whole, list(n, func(i int) float64 { return of(root, me*n+i) }), n,
				func(a, b *mem.Buffer) (*nccl.Work, error) {
					return r.c.Scatter(r.ctx, r.s, a, b, t,
						root)
				}); err != nil {
				return err
			}
		}
		if err := r.check("all-to-all", t, whole, list(n*size, func(i int) float64 { return of(i/n, me*n+i%n) }),
			n*size, func(a, b *mem.Buffer) (*nccl.Work, error) {
				return r.c.AllToAll(r.ctx, r.s, a, b, t)
			}); err != nil {
			return err
		}
		next, before := (me+1)%size, (me+size-1)%size
		if err := r.check("ring", t, mine, list(n, func(i int) float64 {
			return of(before, i)
		}), n, func(a, b *mem.Buffer) (*nccl.Work, error) {
			return r.c.Group().Send(a, t, next).Recv(b, t, before).Run(r.ctx, r.s)
		}); err != nil {
			return err
		}
	}
	for _, t := range []nccl.DataType{nccl.Float32, nccl.Float64, nccl.Int32} {
		op, err := r.c.PreMulSum(r.ctx, t, 2)
		if err != nil {
			return err
		}
		want := list(n, func(i int) (v float64) {
			for rank := range size {
				v += 2 * of(rank, i)
			}
			return v
		})
		if err := r.check("pre-multiplied sum", t, mine, want, n, func(a, b *mem.Buffer) (*nccl.Work, error) {
			return r.c.AllReduce(r.ctx, r.s, a, b, t, op)
		}); err != nil {
			return err
		}
		if err := r.c.FreeOp(r.ctx, op); err != nil {
			return err
		}
	}
	// In place, registered.
	b, err := r.put(nccl.Float32, mine)
	if err != nil {
		return err
	}
	defer b.Release()
	undo, err := r.c.Register(r.ctx, b)
	if err != nil {
		return err
	}
	w, err := r.c.AllReduce(r.ctx, r.s, b, b, nccl.Float32, nccl.Avg)
	if err != nil {
		return err
	}
	if err := w.Wait(r.ctx); err != nil {
		return err
	}
	got, err := r.get(nccl.Float32, b)
	if err != nil {
		return err
	}
	want := (of(0, 0) + of(1, 0)) / 2
	if size == 2 && got[0] != want {
		return fmt.Errorf("average %v, want %v", got[0], want)
	}
	if err := undo(r.ctx); err != nil {
		return err
	}
	if err := r.window(b); err != nil {
		return err
	}
	// Host memory and a stream of nobody are refused, and the communicator goes on.
	if _, err := r.c.AllReduce(r.ctx, r.s, mem.FromBytes(make([]byte, 8)), b, nccl.Float32, nccl.Sum); err == nil {
		return errors.New("host memory was taken")
	}
	return r.c.Err()
}

// split makes communicators of one rank each, and of all in reverse order.
func (r *rig) split() error {
	me, size := r.c.Rank(), r.c.Size()
	alone, err := r.c.Split(r.ctx, me, 0, nccl.Config{})
	if err != nil {
		return err
	}
	if alone.Rank() != 0 || alone.Size() != 1 {
		return fmt.Errorf("alone it is rank %d of %d", alone.Rank(), alone.Size())
	}
	back, err := r.c.Split(r.ctx, 0, size-me, nccl.Config{SplitShare: true})
	if err != nil {
		return err
	}
	if back.Rank() != size-1-me || back.Size() != size {
		return fmt.Errorf("in reverse it is rank %d of %d", back.Rank(), back.Size())
	}
	color := -1
	if me == 0 {
		color = 7
	}
	some, err := r.c.Split(r.ctx, color, 0, nccl.Config{})
	if err != nil || (some != nil) != (me == 0) {
		return fmt.Errorf("a part without this rank: %v, %w", some, err)
	}
	for _, c := range []*nccl.Comm{alone, back, some} {
		if c == nil {
			continue
		}
		sub := &rig{r.ctx, c, r.s, r.pool}
		if err := sub.everything(); err != nil {
			return err
		}
		if err := c.Shutdown(r.ctx); err != nil {
			return err
		}
	}
	if lib, err := nccl.Library(); err != nil || lib.Version < 22700 {
		return err
	}
	if me == 0 {
		small, err := r.c.Shrink(r.ctx, []int{size - 1}, false, nccl.Config{})
		if err != nil {
			return err
		}
		if small.Size() != size-1 || small.Rank() != 0 {
			return fmt.Errorf("shrunk to rank %d of %d", small.Rank(), small.Size())
		}
		if err := small.Shutdown(r.ctx); err != nil {
			return err
		}
	}
	return nil
}

// death: the last rank dies in the middle; the others get an error and not a hang.
func (r *rig) death() error {
	b, err := r.put(nccl.Float32, make([]float64, 1024))
	if err != nil {
		return err
	}
	w, err := r.c.AllReduce(r.ctx, r.s, b, b, nccl.Float32, nccl.Sum)
	if err != nil {
		return err
	}
	if err := w.Wait(r.ctx); err != nil {
		return err
	}
	if r.c.Rank() == r.c.Size()-1 {
		os.Exit(9)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 15*time.Second)
	defer cancel()
	for {
		w, err := r.c.AllReduce(ctx, r.s, b, b, nccl.Float32, nccl.Sum)
		if err == nil {
			err = w.Wait(ctx)
		}
		if err == nil {
			continue
		}
		if r.c.Err() == nil {
			return fmt.Errorf("%w, but the communicator is well", err)
		}
		if _, again := r.c.AllReduce(r.ctx, r.s, b, b, nccl.Float32, nccl.Sum); again == nil {
			return errors.New("an operation after the end")
		}
		fmt.Println("noticed:", err)
		return r.c.Shutdown(r.ctx)
	}
}

// cancel: rank 0 does not take part; the others' contexts end.
func (r *rig) cancel() error {
	b, err := r.put(nccl.Float32, make([]float64, 1024))
	if err != nil {
		return err
	}
	if r.c.Rank() == 0 {
		time.Sleep(time.Second) // alive, but silent
		_ = r.c.Close()
		if !errors.Is(r.c.Err(), nccl.ErrAborted) {
			return fmt.Errorf("aborted: %w", r.c.Err())
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
	defer cancel()
	w, err := r.c.AllReduce(ctx, r.s, b, b, nccl.Float32, nccl.Sum)
	if err == nil {
		err = w.Wait(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(r.c.Err(), nccl.ErrAborted) {
		return fmt.Errorf("ended with %w, the communicator with %w", err, r.c.Err())
	}
	return nil
}

func TestGPUCollectives(t *testing.T) {
	requireGPU(t)
	for _, n := range []int{1, 2} {
		t.Run(strconv.Itoa(n), func(t *testing.T) { ranks(t, n, "all", false) })
	}
}

func TestGPUSplit(t *testing.T) {
	requireGPU(t)
	ranks(t, 2, "split", false)
}

func TestGPUDeath(t *testing.T) {
	requireGPU(t)
	outs := ranks(t, 2, "death", true)
	if !strings.Contains(outs[0], "noticed: nccl: ") {
		t.Errorf("rank 0 said %q", outs[0])
	}
}

func TestGPUCancel(t *testing.T) {
	requireGPU(t)
	ranks(t, 2, "cancel", false)
}

// An id that nobody meets at: Init ends with its context.
func TestGPUInitAlone(t *testing.T) {
	requireGPU(t)
	id, err := nccl.NewUniqueID()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := nccl.Init(ctx, nccl.Config{}, id, 0, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("alone: %v, %v", c, err)
	}
	if _, err := nccl.Init(t.Context(), nccl.Config{Device: 99}, id, 0, 1); err == nil ||
		!strings.Contains(err.Error(), "99") {
		t.Errorf("device 99: %v", err)
	}
	if lib, err := nccl.Library(); err != nil || lib.Version < 21400 || lib.Path == "" {
		t.Errorf("library %+v, %v", lib, err)
	}
}
