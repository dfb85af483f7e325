package gpu

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// daskArrays are arrays of every class that crosses, in both orders, from one byte to many.
var daskArrays = []struct {
	class   string
	dtype   wire.DType
	shape   []int
	strides []int
}{
	{wire.CuPyArray, wire.Uint8, []int{1}, nil},
	{wire.CuPyArray, wire.Float64, []int{1000}, nil},
	{wire.CuPyArray, wire.Float64, []int{300, 1001}, nil},
	{wire.CuPyArray, wire.Float32, []int{70, 50}, []int{4, 280}}, // Fortran's order
	{wire.CuPyArray, wire.Int64, []int{8 << 20}, nil},            // 64 MiB
	{wire.NumbaArray, wire.Int32, []int{4096}, nil},
	{wire.RMMBuffer, wire.Uint8, []int{100_003}, nil},
}

// TestGPUDaskComm exchanges device arrays with Dask's own comms (distributed-ucxx, CuPy, Numba, RMM): frames
// flagged CUDA that go from device to device, and into host memory when the receiver has no device.
func TestGPUDaskComm(t *testing.T) {
	requireGPU(t)
	for _, mode := range []struct {
		name  string
		multi bool
		env   string
	}{{"plain", false, "DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=False"},
		{"multi-buffer", true, "DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=True"}} {
		for _, way := range []string{"we dial", "we listen"} {
			for _, to := range []string{"device", "host"} {
				t.Run(mode.name+"/"+way+"/to "+to, func(t *testing.T) {
					ctx := testContext(t)
					b := ucxcomm.New("ucxx", ucxcomm.Settings{MultiBuffer: mode.multi})
					var into mem.Resource
					if to == "device" {
						into = cuda.NewDeviceResource(device)
					}
					c := daskComm(t, ctx, b, way, into, mode.env)
					for _, a := range daskArrays {
						if mode.multi && a.class == wire.RMMBuffer {
							continue // UCXX has a class of its own for what it receives so, which Dask refuses
						}
						if err := daskRound(ctx, c, a.class, a.dtype, a.shape, a.strides, to); err != nil {
							t.Errorf("%s %s %v: %v", a.class, a.dtype, a.shape, err)
						}
					}
					must(t, c.Close())
				})
			}
		}
	}
}

// daskComm connects with a Python process, which ends with the test.
func daskComm(t *testing.T, ctx context.Context, b comm.Backend, way string, into mem.Resource,
	env string) comm.Comm {
	t.Helper()
	if way == "we dial" {
		address := startDask(t, env, "listen")
		_, loc := commaddr.Parse(address)
		c, err := b.Dial(ctx, loc, comm.DialConfig{Device: into})
		must(t, err)
		return c
	}
	l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{Device: into})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	startDask(t, env, "connect", l.ContactAddr())
	c, err := l.Accept(ctx)
	must(t, err)
	return c
}

// startDask starts the peer and returns its address if it listens.
func startDask(t *testing.T, env string, args ...string) string {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PEER_PYTHON names no Python with distributed-ucxx: run the tests by the bundle's run.sh")
	}
	cmd := exec.Command(python, append([]string{"testdata/dask_peer.py"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Env = append(os.Environ(), "DASK_DISTRIBUTED_UCXX__CREATE_CUDA_CONTEXT=True", env)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended: // the comm's end is its end
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			t.Error("the Python peer did not end with its comm")
		}
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log.Bytes())
		}
	})
	if args[0] != "listen" {
		return ""
	}
	for lines := bufio.NewScanner(out); lines.Scan(); { // UCX says things, too
		if strings.HasPrefix(lines.Text(), "ucxx://") {
			return lines.Text()
		}
	}
	t.Fatal("the Python peer did not say where it listens")
	return ""
}

// daskRound sends one array and checks what Python saw and sends back.
func daskRound(ctx context.Context, c comm.Comm, class string, dtype wire.DType, shape, strides []int,
	to string) error {
	n := dtype.ItemSize()
	for _, d := range shape {
		n *= d
	}
	b, err := newFilled(ctx, "device", n, uint64(n))
	if err != nil {
		return err
	}
	defer b.release()
	sent := pattern(uint64(n), n)
	m, err := wire.Encode(wire.NewDict("op", class, "n", n,
		"x", wire.Serialize{Value: &wire.DeviceArray{Class: class, DType: dtype, Shape: shape, Strides: strides,
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
	v, err := wire.Decode(answer, wire.DecodeOptions{})
	if err != nil {
		return err
	}
	if err := b.check(ctx, uint64(n)); err != nil { // sending changes nothing
		return err
	}
	got, ok := v.(wire.Dict)
	if !ok {
		return fmt.Errorf("the answer is %T", v)
	}
	sum := sha256.Sum256(sent)
	if s := got.GetString("sha256"); s != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("Python saw other bytes: %s", s)
	}
	if s := got.GetString("class"); s != class {
		return fmt.Errorf("Python got a %s", s)
	}
	x, _ := got.Get("x")
	back, ok := x.(*wire.DeviceArray)
	if !ok {
		return fmt.Errorf("Python's array came back as %T", x)
	}
	if fmt.Sprint(back.Shape) != fmt.Sprint(shape) || back.DType != dtype || back.Class != class {
		return fmt.Errorf("came back as %s %s %v", back.Class, back.DType, back.Shape)
	}
	for i := range sent {
		sent[i] = ^sent[i]
	}
	return checkArray(ctx, back.Frame, sent, to)
}

// checkArray compares the bytes of a frame and where it lies.
func checkArray(ctx context.Context, f wire.Frame, want []byte, to string) error {
	if f.OnDevice() != (to == "device") {
		return fmt.Errorf("the frame arrived on the device: %t, asked for: %s", f.OnDevice(), to)
	}
	var got []byte
	if !f.OnDevice() {
		got = f.Bytes()
	} else {
		got = make([]byte, f.Len())
		if err := cuda.CopyToHost(ctx, got, f.Buffer()); err != nil {
			return err
		}
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came back, and not the right ones", len(got))
	}
	return nil
}
