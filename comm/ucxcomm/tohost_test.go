//go:build cgo

package ucxcomm

import (
	"bytes"
	"context"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// A peer that has no GPU gets what is on one from host memory, in both directions of the call,
// still flagged as a GPU's.
func TestDeviceFramesForPeerWithoutGPU(t *testing.T) {
	g := devmemtest.New(1 << 20)
	saved := copyDown
	copyDown = func(_ context.Context, dst []byte, src *mem.Buffer) error { copy(dst, g.Bytes(src)); return nil }
	defer func() { copyDown = saved }()
	gpu := g.Plain(0)
	for _, dialer := range []bool{true, false} {
		var dial comm.DialConfig
		var listen comm.ListenConfig
		if dialer {
			dial.Device = gpu
		} else {
			listen.Device = gpu
		}
		from, to := stagedPair(t, dial, listen)
		if !dialer {
			from, to = to, from
		}
		if _, ok := from.link.(*hostLink); !ok {
			t.Fatalf("the data connection to a peer without a GPU is a %T", from.link)
		}
		b, err := gpu.Alloc(t.Context(), 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.Bytes(b) {
			g.Bytes(b)[i] = byte(i)
		}
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("head")), wire.BufferFrame(b)}}
		got := carried(t, from, to, m)
		if len(got.Frames) != 2 || string(got.Frames[0].Bytes()) != "head" ||
			!bytes.Equal(got.Frames[1].Bytes(), g.Bytes(b)) {
			t.Errorf("%d frames arrived, or others", len(got.Frames))
		}
		got.Release()
		back := carried(t, to, from, &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("answer"))}})
		if string(back.Frames[0].Bytes()) != "answer" {
			t.Errorf("answered %q", back.Frames[0].Bytes())
		}
		back.Release()
		m.Release()
	}
	if used, _ := g.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	// Where both have one UCX moves it, or lines beside the data connection.
	a, z := stagedPair(t, comm.DialConfig{Device: gpu}, comm.ListenConfig{Device: gpu})
	for _, c := range []*conn{a, z} {
		if _, ok := c.link.(*hostLink); ok {
			t.Error("a peer with a GPU is taken for one without")
		}
	}
}
