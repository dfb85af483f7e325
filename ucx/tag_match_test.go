package ucx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

// Receives match in the order they were posted, each only in the bits of its mask.
func TestTagMasks(t *testing.T) {
	for _, transport := range []string{"self", "shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testContext(t)
			a, b := transportPair(t, transport, WorkerConfig{})
			type want struct {
				tag, mask uint64
				buf       []byte
				r         *Request
			}
			posts := []*want{
				{tag: 0x1100, mask: 0xff00},
				{tag: 0x0022, mask: 0x00ff},
				{tag: 0x3344, mask: FullMask},
				{tag: 0xabcdef, mask: AnyTag},
				{tag: 1 << 63, mask: 1 << 63},
			}
			for _, p := range posts {
				p.buf = make([]byte, 8)
				p.r = b.StartRecv(Bytes(p.buf), p.tag, p.mask)
			}
			sends := []struct {
				tag uint64
				by  int // which receive takes it
			}{
				{0x3344, 2}, {0x9922, 1}, {0x11ff, 0}, {0x5555, 3}, {1<<63 | 7, 4},
			}
			// The any-tag receive was posted fourth: messages that match an earlier one go there.
			for _, s := range sends {
				if err := a.Send(ctx, Bytes(fmt.Appendf(nil, "%08x", uint32(s.tag))), s.tag); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range sends {
				p := posts[s.by]
				if err := p.r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
				if p.r.Info().Tag != s.tag || string(p.buf) != fmt.Sprintf("%08x", uint32(s.tag)) {
					t.Errorf("receive %x/%x got tag %x, %q; want tag %x", p.tag, p.mask, p.r.Info().Tag, p.buf, s.tag)
				}
			}
			// The same with messages that were there before the receive.
			for _, tag := range []uint64{0x10, 0x21, 0x30} {
				if err := a.Send(ctx, Bytes([]byte{byte(tag)}), tag); err != nil {
					t.Fatal(err)
				}
			}
			one := make([]byte, 1)
			info, err := b.Recv(ctx, Bytes(one), 0x01, 0x01)
			if err != nil || info.Tag != 0x21 || one[0] != 0x21 {
				t.Errorf("odd tag: %+v, %x, %v", info, one, err)
			}
			for _, tag := range []uint64{0x10, 0x30} { // messages of one sender do not overtake
				if info, err := b.Recv(ctx, Bytes(one), 0, AnyTag); err != nil || info.Tag != tag {
					t.Errorf("any tag: %+v, %v; want %x", info, err, tag)
				}
			}
		})
	}
}

// A message longer than its buffer is reported with both lengths, writes nothing behind
// the buffer, and leaves the connection usable.
func TestTagTruncated(t *testing.T) {
	for _, transport := range []string{"self", "shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testContext(t)
			a, b := transportPair(t, transport, WorkerConfig{})
			ps := newPayloads(t)
			tag := uint64(100)
			for _, n := range []int{8, 1024, 4000, eagerLimit + 1, 200000} {
				for _, room := range []int{0, 1, n - 1} {
					for _, expected := range []bool{true, false} {
						for _, kind := range memoryKinds {
							tag++
							name := fmt.Sprintf("%d into %d, expected %v, %s", n, room, expected, kind)
							dst := ps.get(kind, room)
							truncate(t, ctx, name, a, b, tag, n, dst, expected)
							dst.free()
						}
					}
				}
			}
			if err := both(func() error { return a.Send(ctx, Bytes([]byte("still here")), 1) }, func() error {
				_, err := b.Recv(ctx, Bytes(make([]byte, 10)), 1, FullMask)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

func truncate(t *testing.T, ctx context.Context, name string, a, b *Endpoint, tag uint64, n int, dst *payload,
	expected bool) {
	t.Helper()
	var r *Request
	if expected {
		r = b.StartRecv(dst.view, tag, FullMask)
	}
	s := a.StartSend(Bytes(testBytes(tag, n)), tag)
	if !expected {
		m := &opRun{ctx: ctx, b: b, tag: tag}
		if _, err := m.awaitMessage(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r = b.StartRecv(dst.view, tag, FullMask)
	}
	err := r.Wait(ctx)
	var te *TruncatedError
	if !errors.Is(err, ErrTruncated) || !errors.As(err, &te) {
		t.Fatalf("%s: %v", name, err)
	}
	if te.Buffer != dst.n || te.Message != n {
		t.Errorf("%s: the error says %d bytes for a buffer of %d", name, te.Message, te.Buffer)
	}
	if err := dst.check(nil); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := s.Wait(ctx); err != nil { // the sender has done its part
		t.Errorf("%s: sender: %v", name, err)
	}
}

func TestReceiveAllocLimit(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, transportConfig("shm"), WorkerConfig{})
	for _, n := range []int{100, 5000, 100000} {
		s := a.StartSend(Bytes(make([]byte, n)), 5)
		_, info, err := b.Worker().RecvAlloc(ctx, 5, FullMask, n-1)
		var te *TruncatedError
		if !errors.As(err, &te) || te.Message != n || te.Buffer != n-1 || info.Len != n {
			t.Errorf("%d bytes with a limit of %d: %+v, %v", n, n-1, info, err)
		}
		if err := s.Wait(ctx); err != nil {
			t.Errorf("%d bytes: sender: %v", n, err)
		}
	}
	if _, ok, err := b.Worker().Probe(5, FullMask); ok || err != nil {
		t.Errorf("a refused message is still there: %v, %v", ok, err)
	}
}

func TestReadOnlyRefused(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	backing := make([]byte, 4096)
	region := mem.NewRegion(mem.RegionConfig{Heap: backing, ReadOnly: true})
	buf := region.Buffer()
	defer buf.Release()
	ro := Buffer(buf)
	if !ro.readOnly {
		t.Fatal("the view of a read-only buffer does not say so")
	}
	_, err1 := b.Recv(ctx, ro, 1, FullMask)
	_, err2 := b.Worker().Recv(ctx, ro, 1, FullMask)
	for what, err := range map[string]error{
		"Recv": err1, "worker Recv": err2, "StartRecv": b.StartRecv(ro, 1, FullMask).Err(),
		"worker StartRecv": b.Worker().StartRecv(ro, 1, FullMask).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := both(func() error { return a.Send(ctx, ro, 2) }, func() error {
		_, err := b.Recv(ctx, Bytes(make([]byte, 4096)), 2, FullMask)
		return err
	}); err != nil {
		t.Errorf("sending from read-only memory: %v", err)
	}
}
