//go:build cgo

package ucxcomm

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func pair(t *testing.T, b *backend) (dialed, accepted comm.Comm) {
	t.Helper()
	ctx := testContext(t)
	l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, loc := commaddr.Parse(l.ContactAddr())
	dialed, err = b.Dial(ctx, loc, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err = l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed, accepted
}

func msg(frames ...[]byte) *wire.Message {
	m := &wire.Message{}
	for _, f := range frames {
		m.Frames = append(m.Frames, wire.HeapFrame(f))
	}
	return m
}

func TestEcho(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, z := pair(t, b)
			t.Log(a.LocalAddr(), a.PeerAddr(), z.LocalAddr(), z.PeerAddr(), a.Info().Millstream)
			for _, size := range []int{1, 100, 9000, 1 << 20, 10 << 20} {
				data := bytes.Repeat([]byte{byte(size)}, size)
				sent := make(chan error, 1)
				go func() { sent <- a.Write(ctx, msg([]byte("body"), nil, data)) }()
				m, err := z.Read(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				if len(m.Frames) != 3 || string(m.Body()) != "body" || m.Frames[1].Len() != 0 ||
					!bytes.Equal(m.Frames[2].Bytes(), data) {
					t.Fatalf("got %d frames", len(m.Frames))
				}
				m.Release()
			}
		})
	}
}

// Peers of which one uses multi-buffer mode are told so.
func TestFormsDiffer(t *testing.T) {
	ctx := testContext(t)
	for _, names := range [][2]string{{"plain", "multi-buffer"}, {"multi-buffer", "plain"}} {
		l, err := backends[names[0]].Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, loc := commaddr.Parse(l.ContactAddr())
		_, err = backends[names[1]].Dial(ctx, loc, comm.DialConfig{})
		// Whichever side is faster finds out; the other one sees the connection end.
		if err == nil || !errors.Is(err, errForm) && !errors.Is(err, comm.ErrClosed) {
			t.Errorf("%v: %v", names, err)
		}
		t.Log(err)
	}
}

// Large frames arrive in memory of the resource given, and go back to it.
func TestHostMemory(t *testing.T) {
	for _, s := range []Settings{{}, {PlainTransports: true}, {PlainTransports: true, MultiBuffer: true}} {
		pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		s.Host = pool
		a, z := pair(t, newBackend("ucxx", s))
		ctx := testContext(t)
		data := bytes.Repeat([]byte("0123456789"), 50_000)
		sent := make(chan error, 1)
		go func() { sent <- a.Write(ctx, msg([]byte("body"), data, nil, []byte("small"))) }()
		m, err := z.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"body", string(data), "", "small"} {
			if got := m.Frames[i]; string(got.Bytes()) != want || (got.Buffer() != nil) != (len(want) >= pooledFrom) {
				t.Errorf("%+v: frame %d has %d bytes in %v", s, i, got.Len(), got.Buffer())
			}
		}
		if n := pool.Stats().Outstanding; n != 1 {
			t.Errorf("%d buffers of the pool are in use", n)
		}
		m.Release()
		// The sender's last reference goes when UCX's completion has been delivered.
		for end := time.Now().Add(30 * time.Second); pool.Stats().Outstanding != 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := pool.Stats().Outstanding; n != 0 {
			t.Errorf("%d buffers of the pool are in use after the release", n)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An Abort does not wait for a Close that does.
func TestAbortHurriesClose(t *testing.T) {
	a, _ := pair(t, backends["data"])
	ctx := testContext(t)
	go a.Write(ctx, msg(make([]byte, 64<<20))) // nobody reads it
	time.Sleep(20 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	time.Sleep(20 * time.Millisecond)
	a.Abort()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("Close still waits")
	}
	if !errors.Is(a.Err(), comm.ErrClosed) {
		t.Error(a.Err())
	}
}
