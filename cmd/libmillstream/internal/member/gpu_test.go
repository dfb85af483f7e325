package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

func requireGPU(t *testing.T) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: " + err.Error())
	}
}

// onGPU returns a copy of x in device memory, and a function that reads it.
func onGPU(t *testing.T, x []float32) (*mem.Buffer, func() ([]float32, error)) {
	t.Helper()
	b, err := cuda.NewDeviceResource(0).Alloc(testContext(t), 4*len(x))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	if err := cuda.CopyFromHost(testContext(t), b, bytesOf(x)); err != nil {
		t.Fatal(err)
	}
	return b, func() ([]float32, error) {
		out := make([]float32, len(x))
		return out, cuda.CopyToHost(context.Background(), bytesOf(out), b)
	}
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// TestGPUOperations: collectives and messages on device memory that is recognized by its address, and on memory that is
// declared as such.
func TestGPUOperations(t *testing.T) {
	requireGPU(t)
	kind := clique.KindOf[float32]()
	const n = 1 << 16
	for _, memory := range []Memory{Any, Device} {
		each(t, formed(t, 2), func(me int, m *Member) error {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i%97 + me)
			}
			send, _ := onGPU(t, x)
			recv, read := onGPU(t, make([]float32, n))
			all, readAll := onGPU(t, make([]float32, 2*n))
			o := Operation{Kind: kind, Op: 1, Count: n, Send: send.Addr(), Recv: recv.Addr(), Memory: memory}
			do := func(code Code, change func(o *Operation)) error {
				c := o
				c.Code = code
				if change != nil {
					change(&c)
				}
				_, err := m.Do(c)
				return err
			}
			if err := do(AllReduce, nil); err != nil {
				return err
			}
			got, err := read()
			if err != nil || got[100] != 7 || got[n-1] != 2*float32((n-1)%97)+1 {
				t.Errorf("%d: allreduce: got %v, %v, %v", me, got[100], got[n-1], err)
			}
			if err := do(AllGather, func(o *Operation) { o.Recv = all.Addr() }); err != nil {
				return err
			}
			if got, err = readAll(); err != nil || got[0] != 0 || got[n] != 1 {
				t.Errorf("%d: allgather: got %v, %v, %v", me, got[0], got[n], err)
			}
			if err := do(SendRecv, func(o *Operation) { o.RecvCount, o.Peer, o.From = n, 1-me, 1-me }); err != nil {
				return err
			}
			if got, err = read(); err != nil || got[0] != float32(1-me) {
				t.Errorf("%d: sendrecv: got %v, %v", me, got[0], err)
			}
			return nil
		})
	}
}

// TestGPUStreamOrder: an operation waits for the work on the stream of the caller, and later work on that stream sees
// the result.
func TestGPUStreamOrder(t *testing.T) {
	requireGPU(t)
	const n = 64 << 20
	each(t, formed(t, 2), func(me int, m *Member) error {
		s, err := cuda.NewStream(0, cuda.StreamConfig{})
		if err != nil {
			return err
		}
		defer s.Close()
		x, _ := onGPU(t, make([]float32, n/4))
		host, err := cuda.NewPinnedResource(0).Alloc(testContext(t), n)
		if err != nil {
			return err
		}
		defer host.Release()
		m.SetStream(s.Handle())
		for range 100 {
			if _, err := s.Fill(x, 9); err != nil {
				return err
			}
		}
		if _, err := s.Fill(x, byte(1+me)); err != nil {
			return err
		}
		x.SetReady(nil) // only the stream orders the operation
		o := Operation{Code: AllReduce, Kind: clique.KindOf[uint8](), Op: 1, Count: n, Send: x.Addr(), Recv: x.Addr()}
		q, err := m.Start(o)
		if err != nil {
			return err
		}
		if err := errors.Join(q.Wait(testContext(t)), q.Finish()); err != nil {
			return err
		}
		x.SetReady(nil)
		if _, err := s.Copy(host, x); err != nil {
			return err
		}
		if err := m.SyncStream(s.Handle()); err != nil {
			return err
		}
		for i, b := range host.Bytes() {
			if b != 3 {
				return fmt.Errorf("byte %d: got %d, want 3", i, b)
			}
		}
		return nil
	})
}

// TestGPUInvalid: host memory and a range beyond an allocation are named on every rank.
func TestGPUInvalid(t *testing.T) {
	requireGPU(t)
	each(t, formed(t, 2), func(me int, m *Member) error {
		x, _ := onGPU(t, make([]float32, 1<<20))
		y, _ := onGPU(t, make([]float32, 1<<20))
		right := Operation{Code: AllReduce, Kind: clique.KindOf[float32](), Op: 1, Count: 1 << 20, Send: x.Addr(),
			Recv: y.Addr(), Memory: Device}
		host := make([]float32, 1<<20)
		for _, c := range []struct {
			want   string
			change func(o *Operation)
		}{
			{"is not device memory", func(o *Operation) { o.Recv = at(host) }},
			{"the allocation there", func(o *Operation) { o.Send += 4 }},
		} {
			o := right
			if me == 0 {
				c.change(&o)
			}
			var mismatch *clique.MismatchError
			_, err := m.Do(o)
			if !errors.As(err, &mismatch) || mismatch.Rank != 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d: got %v, want a mismatch of rank 0 with %q", me, err, c.want)
			}
		}
		_, err := m.Do(right)
		return err
	})
}
