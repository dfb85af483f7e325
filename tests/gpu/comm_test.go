package gpu

import (
	"context"
	"fmt"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// TestGPUComm sends device arrays between two Millstream processes over ucxx://: each end has its frames in
// the memory that its Device names, and they travel on a transport for GPUs.
func TestGPUComm(t *testing.T) {
	requireGPU(t)
	for _, s := range settings {
		for _, to := range []string{"device", "host"} {
			t.Run(s.name+"/to "+to, func(t *testing.T) {
				ctx := testContext(t)
				h := openHelper(t, order{Do: "open-comm", Options: s.options, Device: "device"})
				var into mem.Resource
				if to == "device" {
					into = cuda.NewDeviceResource(device)
				}
				b := ucxcomm.New("ucxx", ucxcomm.Settings{Options: s.options})
				_, loc := commaddr.Parse(h.address)
				c, err := b.Dial(ctx, loc, comm.DialConfig{Device: into})
				must(t, err)
				serve := h.start(order{Do: "echo-comm"})
				for _, n := range []int{1, 1000, 8192, 8193, 1<<20 + 7, 64 << 20} {
					if err := echoArray(ctx, c, n, to); err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
				must(t, c.Close())
				serve.wait()
				h.quit()
			})
		}
	}
}

// echoArray sends a device array and checks what comes back, and that the other end had it on its device.
func echoArray(ctx context.Context, c comm.Comm, n int, to string) error {
	seed := seed()
	b, err := newFilled(ctx, "device", n, seed)
	if err != nil {
		return err
	}
	defer b.release()
	m, err := wire.Encode(wire.NewDict("x", wire.Serialize{Value: &wire.DeviceArray{DType: wire.Uint8, Shape: []int{n},
		Frame: wire.BufferFrame(b.inner)}}),
		c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	if err := c.Write(ctx, m); err != nil {
		return err
	}
	answer, err := c.Read(ctx)
	if err != nil {
		return err
	}
	defer answer.Release()
	x, err := arrayOf(answer)
	if err != nil {
		return err
	}
	return checkArray(ctx, x.Frame, pattern(seed, n), to)
}

func arrayOf(m *wire.Message) (*wire.DeviceArray, error) {
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	d, _ := v.(wire.Dict)
	x, _ := d.Get("x")
	a, ok := x.(*wire.DeviceArray)
	if !ok {
		return nil, fmt.Errorf("an array came as %T", x)
	}
	return a, nil
}

// openComm listens for comms whose device frames go into memory of the kind asked for.
func (p *peer) openComm(ctx context.Context, o order) (answer, error) {
	into, err := resource(o.Device)
	if err != nil {
		return answer{}, err
	}
	if cfg := (comm.ListenConfig{Device: into}); o.Scheme != "" {
		p.comms, err = comm.Listen(ctx, o.Scheme+"://127.0.0.1:0", cfg)
	} else {
		p.comms, err = ucxcomm.New("ucxx", ucxcomm.Settings{Options: o.Options}).Listen(ctx, "127.0.0.1:0", cfg)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{Address: p.comms.ContactAddr()}, nil
}

// echoComm sends back what one comm brings, and fails if an array did not arrive on the device.
func (p *peer) echoComm(ctx context.Context) error {
	c, err := p.comms.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return p.comms.Close() // the test is through; what it missed it says itself
		}
		x, err := arrayOf(m)
		if err == nil && !x.Frame.OnDevice() {
			err = fmt.Errorf("an array of %d bytes arrived in host memory", x.Frame.Len())
		}
		if err == nil {
			err = c.Write(ctx, m)
		}
		m.Release()
		if err != nil {
			return err
		}
	}
}
