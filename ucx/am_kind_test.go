package ucx

import (
	"bytes"
	"context"
	"testing"

	"go.millstream.dev/mem"
)

// Messages of every kind of memory keep their id, and only those of ids that the peer knows kinds for change it.
func TestMessageKindIDs(t *testing.T) {
	a, _ := pair(t, Config{}, WorkerConfig{})
	plain := &Endpoint{}
	for _, id := range []uint16{0, 5, maxKindAM - 1, reservedTo + 1, kindAMEnd, 65535} {
		for _, kind := range []mem.Kind{mem.Host, mem.Pinned, mem.Device, mem.Managed} {
			data := []View{{kind: kind, n: 1}}
			sent := kindID(a, id, data)
			got, told := kindOf(sent)
			want := mem.Host
			if id < maxKindAM && (kind == mem.Device || kind == mem.Managed) {
				want = kind
			}
			if got != id || told != want {
				t.Errorf("id %d from %s memory travels as %d and arrives as %d from %s memory, want %s", id, kind,
					sent, got, told, want)
			}
			if sent := kindID(plain, id, data); sent != id {
				t.Errorf("id %d from %s memory to a peer without a lifeline travels as %d", id, kind, sent)
			}
		}
		if sent := kindID(a, id, nil); sent != id {
			t.Errorf("id %d without data travels as %d", id, sent)
		}
	}
}

// tallyResource counts what is allocated from it.
type tallyResource struct {
	mem.Resource
	n int
}

func (r *tallyResource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	r.n++
	return r.Resource.Alloc(ctx, n)
}

// The kind of memory that a sender names decides which of the worker's allocators is used, and a resource of the call
// comes before all of them.
func TestMessageKindAllocators(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	w := b.Worker()
	heap := func() *tallyResource { return &tallyResource{Resource: mem.Heap} }
	host, device, own := heap(), heap(), heap()
	if err := w.OpenAM(5); err != nil {
		t.Fatal(err)
	}
	receive := func(id uint16, kind mem.Kind, res mem.Resource) {
		t.Helper()
		want := bytes.Repeat([]byte("data"), 5000)
		err := both(func() error { return a.sendAM(ctx, id, []byte("h"), AMOptions{Reply: true}, []View{Bytes(want)}) },
			func() error {
				m, err := w.RecvAM(ctx, 5)
				if err != nil {
					return err
				}
				if m.ID != 5 || m.Kind != kind || string(m.Header) != "h" || m.ReplyTo == nil {
					t.Errorf("message %d from %s memory, header %q, reply %v; want 5 from %s", m.ID, m.Kind,
						m.Header, m.ReplyTo, kind)
				}
				got, err := m.Buffer(ctx, res)
				if err != nil {
					return err
				}
				defer got.Release()
				if !bytes.Equal(got.Bytes(), want) {
					t.Error("another content arrived")
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	counts := func(wantHost, wantDevice, wantOwn int) {
		t.Helper()
		if host.n != wantHost || device.n != wantDevice || own.n != wantOwn {
			t.Errorf("allocated %d times for host, %d for device, %d by the call; want %d, %d, %d",
				host.n, device.n, own.n, wantHost, wantDevice, wantOwn)
		}
	}
	receive(deviceAM+5, mem.Device, nil) // nothing is set: Go's heap
	counts(0, 0, 0)
	w.SetAllocator(mem.Host, host)
	receive(5, mem.Host, nil)
	receive(managedAM+5, mem.Managed, nil) // where host memory goes
	counts(2, 0, 0)
	w.SetAllocator(mem.Device, device)
	receive(deviceAM+5, mem.Device, nil)
	receive(deviceAM+5, mem.Device, own)
	counts(2, 1, 1)
	w.SetAllocator(mem.Device, nil)
	receive(deviceAM+5, mem.Device, nil)
	counts(3, 1, 1)

	// Frames go by the same allocators where the receive has none of its own.
	frames := func(alloc Allocators) {
		t.Helper()
		err := both(func() error { return a.SendFrames(ctx, Bytes(make([]byte, 100)), Bytes(make([]byte, 100_000))) },
			func() error {
				f, err := b.RecvFrames(ctx, alloc)
				f.Release()
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	frames(Allocators{})
	counts(5, 1, 1)
	frames(Allocators{Host: own})
	counts(5, 1, 3)
}
