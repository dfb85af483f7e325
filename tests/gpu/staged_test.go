package gpu

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/comm/commaddr"
	_ "go.millstream.dev/internal/comm/tcp" // tcp://
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/wire"
)

// noIPC is what UCX may use between containers that share nothing: its own way for device memory is cuda_copy.
var noIPC = map[string]string{"TLS": "tcp,cuda_copy"}

var stagedSizes = []int{1, 1000, 65537, 1<<20 - 1, 1 << 20, 4 << 20, 8<<20 + 13, 64 << 20, 256 << 20}

// stagedDial connects to a second process.
func stagedDial(t *testing.T, ctx context.Context, h *helper, scheme string, options map[string]string,
	staged comm.StagedConfig) comm.Comm {
	t.Helper()
	cfg := comm.DialConfig{Device: cuda.NewDeviceResource(device), Staged: staged}
	if scheme != "" {
		c, err := comm.Dial(ctx, h.address, cfg)
		must(t, err)
		return c
	}
	_, loc := commaddr.Parse(h.address)
	c, err := ucxcomm.New("ucxx", ucxcomm.Settings{Options: options}).Dial(ctx, loc, cfg)
	must(t, err)
	return c
}

// pinned waits until the engine's pinned memory is all unused, frees it and returns how much is left.
func pinned(t *testing.T) int64 {
	t.Helper()
	e, err := staging.ForDevice(device)
	must(t, err)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		e.Trim()
		if n := e.PinnedBytes(); n == 0 || time.Now().After(deadline) {
			return n
		}
	}
}

// TestGPUStaged sends device arrays there and back without cuda_ipc: over tcp:// on one connection and on several, and
// over ucxx:// where UCX has no transport for GPUs.
func TestGPUStaged(t *testing.T) {
	requireGPU(t)
	for _, tc := range []struct {
		name, scheme string
		lines        int
	}{{"tcp, one line", "tcp", 1}, {"tcp", "tcp", 0}, {"ucxx", "", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := testContext(t)
			h := openHelper(t, order{Do: "open-comm", Options: noIPC, Device: "device", Scheme: tc.scheme})
			c := stagedDial(t, ctx, h, tc.scheme, noIPC, comm.StagedConfig{Stripes: tc.lines})
			serve := h.start(order{Do: "echo-comm"})
			for _, n := range stagedSizes {
				begin := time.Now()
				if err := echoArray(ctx, c, n, "device"); err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
				t.Logf("%d bytes there and back, with filling and checking: %v", n, time.Since(begin))
			}
			e, err := staging.ForDevice(device)
			must(t, err)
			if e.PinnedBytes() == 0 {
				t.Error("nothing was staged")
			}
			must(t, c.Close())
			serve.wait()
			h.quit()
			if n := pinned(t); n != 0 {
				t.Errorf("%d bytes of pinned memory are left", n)
			}
		})
	}
}

// TestGPUStagedDeath kills the second process in the middle of a frame, in both directions.
func TestGPUStagedDeath(t *testing.T) {
	requireGPU(t)
	const size = 512 << 20
	for _, scheme := range []string{"tcp", ""} {
		for _, sends := range []bool{true, false} {
			t.Run(fmt.Sprintf("%q sends %v", scheme, sends), func(t *testing.T) {
				ctx := testContext(t)
				h := openHelper(t, order{Do: "open-comm", Options: noIPC, Device: "device", Scheme: scheme})
				c := stagedDial(t, ctx, h, scheme, noIPC, comm.StagedConfig{})
				e, err := staging.ForDevice(device)
				must(t, err)
				e.Trim()
				done := make(chan error, 1)
				if sends {
					b, err := cuda.NewDeviceResource(device).Alloc(ctx, size)
					must(t, err)
					m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), wire.BufferFrame(b)}}
					defer m.Release()
					go func() { done <- c.Write(ctx, m) }() // the peer never reads
				} else {
					h.start(order{Do: "write-comm", N: size})
					go func() { _, err := c.Read(ctx); done <- err }()
				}
				for e.PinnedBytes() == 0 { // it is under way
					time.Sleep(100 * time.Microsecond)
				}
				begin := time.Now()
				h.signal(syscall.SIGKILL)
				select {
				case err := <-done:
					if err == nil && sends {
						t.Error("it was sent to nobody")
					}
					t.Logf("noticed after %v: %v", time.Since(begin), err)
				case <-time.After(patience):
					t.Fatal("nobody noticed")
				}
				_ = c.Close()
				if n := pinned(t); n != 0 {
					t.Errorf("%d bytes of pinned memory are left", n)
				}
			})
		}
	}
}

// writeComm sends device memory over one comm.
func (p *peer) writeComm(ctx context.Context, o order) error {
	c, err := p.comms.Accept(ctx)
	if err != nil {
		return err
	}
	b, err := cuda.NewDeviceResource(device).Alloc(ctx, o.N)
	if err != nil {
		return err
	}
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), wire.BufferFrame(b)}}
	defer m.Release()
	return c.Write(ctx, m)
}
