package clique

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

func deviceStream(t testing.TB) *cuda.Stream {
	t.Helper()
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func deviceCopy(t testing.TB, b []byte) *mem.Buffer {
	t.Helper()
	d, err := cuda.NewDeviceResource(device).Alloc(testContext(t), max(len(b), 1))
	must(t, err)
	t.Cleanup(d.Release)
	if len(b) > 0 {
		must(t, cuda.CopyFromHost(testContext(t), d, b))
	}
	return d
}

func hostCopy(t testing.TB, d *mem.Buffer) []byte {
	t.Helper()
	b := make([]byte, d.Len())
	if len(b) > 0 {
		must(t, cuda.CopyToHost(testContext(t), b, d))
	}
	return b
}

// element is the bits of an element that makes trouble, or a random one.
func element(k collective.Kind, r *rand.Rand) uint64 {
	special := map[collective.Kind][]uint64{
		collective.Float16: {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7d01, 1, 0x83ff, 0x7bff, 0xfbff, 0x3c00,
			0x0400},
		collective.BFloat16: {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 1, 0x807f, 0x7f7f, 0xff7f, 0x3f80,
			0x0080},
		collective.Float32: {0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 1, 0x807fffff, 0x7f7fffff,
			0xff7fffff, 0x3f800000},
		collective.Float64: {0, 1 << 63, math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)),
			0x7ff8000000000000, 1,
			math.Float64bits(math.MaxFloat64), math.Float64bits(-math.MaxFloat64), math.Float64bits(1)},
	}[k]
	if len(special) > 0 {
		switch r.IntN(8) {
		case 0:
			return special[r.IntN(len(special))]
		case 1:
			return r.Uint64() // any bits
		}
		v := r.NormFloat64() * 4
		switch k {
		case collective.Float16:
			return uint64(elem.ToF16(float32(v)))
		case collective.BFloat16:
			return uint64(elem.ToBF16(float32(v)))
		case collective.Float32:
			return uint64(math.Float32bits(float32(v)))
		}
		return math.Float64bits(v)
	}
	if r.IntN(4) == 0 {
		return []uint64{0, 1, math.MaxUint64, 1 << 63, 1 << 31, 1 << 15, 1 << 7, 1<<63 - 1}[r.IntN(8)]
	}
	return r.Uint64()
}

func elements(k collective.Kind, n int, r *rand.Rand) []byte {
	out := make([]byte, 0, n*k.Size()+8)
	for range n {
		out = binary.LittleEndian.AppendUint64(out, element(k, r))[:len(out)+k.Size()]
	}
	return out
}

// isNaN looks at the bits of an element.
func isNaN(k collective.Kind, b []byte) bool {
	switch k {
	case collective.Float16:
		return binary.LittleEndian.Uint16(b)&0x7fff > 0x7c00
	case collective.BFloat16:
		return binary.LittleEndian.Uint16(b)&0x7fff > 0x7f80
	case collective.Float32:
		return binary.LittleEndian.Uint32(b)&0x7fffffff > 0x7f800000
	case collective.Float64:
		return binary.LittleEndian.Uint64(b)&^(1<<63) > 0x7ff0000000000000
	}
	return false
}

func sameElements(k collective.Kind, got, want []byte) error {
	es := k.Size()
	for i := 0; i < len(want); i += es {
		g, w := got[i:i+es], want[i:i+es]
		if string(g) != string(w) && !(isNaN(k, g) && isNaN(k, w)) {
			return fmt.Errorf("element %d of %d is %x, want %x", i/es, len(want)/es, g, w)
		}
	}
	return nil
}

// TestGPUFold compares the reductions on the device with the host's, bit by bit, but for what a NaN carries: every kind
// and operation, sizes that are no multiple of anything, addresses that lie alike, differently, and at no element's
// boundary, one source and many, targets that are a source.
func TestGPUFold(t *testing.T) {
	requireGPU(t)
	s := deviceStream(t)
	const most, room = 4099, 64
	for _, k := range elem.Kinds() {
		begin := time.Now()
		launches := 0
		r := rand.New(rand.NewPCG(uint64(k), 7))
		es := k.Size()
		const many = 5
		var hosts [][]byte
		var bufs []*mem.Buffer
		for range many {
			h := elements(k, most+room, r)
			hosts, bufs = append(hosts, h), append(bufs, deviceCopy(t, h))
		}
		out := deviceCopy(t, make([]byte, (most+room)*es))
		for _, op := range []collective.Op{collective.Sum, collective.Prod, collective.Min, collective.Max,
			collective.Avg, elem.PreMulSumOf(k, 3)} {
			for _, n := range []int{0, 1, 15, 16, 17, 257, 1000, most} {
				// bytes: of sources, of the target
				for shape, shift := range [][2]int{{0, 0}, {16, 16}, {es, es}, {0, es}, {1, 3}} {
					for _, count := range []int{1, 2, 3, many} {
						sources, plain, ops := []*mem.Buffer{}, [][]byte{}, []collective.Op{}
						for i := range count {
							at := shift[0]
							if shape == 4 {
								at += i
							}
							v := bufs[i].Slice(at, n*es)
							sources, plain, ops = append(sources, v), append(plain, hosts[i][at:at+n*es]),
								append(ops, op)
						}
						dst := out.Slice(shift[1], n*es)
						if n > 0 {
							_, err := collective.FoldDevice(s, dst, sources, k, op)
							must(t, err)
							launches++
						}
						want := make([]byte, n*es)
						collective.FoldHost(want, plain, k, ops)
						if err := sameElements(k, hostCopy(t, dst), want); err != nil {
							t.Errorf("%v of %d × %d %v at %v: %v", op, count, n, k, shift, err)
						}
						dst.Release()
						for _, v := range sources {
							v.Release()
						}
					}
				}
			}
		}
		t.Logf("%v: %d launches in %v", k, launches, time.Since(begin).Round(time.Millisecond))
		// In place.
		collective.FoldHost(hosts[0], [][]byte{hosts[0], hosts[1]}, k, []collective.Op{collective.Sum, collective.Sum})
		_, err := collective.FoldDevice(s, bufs[0], bufs[:2], k, collective.Sum)
		must(t, err)
		if err := sameElements(k, hostCopy(t, bufs[0]), hosts[0]); err != nil {
			t.Errorf("%v in place: %v", k, err)
		}
	}
}

const saxpy = `extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}
extern "C" __global__ void slow(long long cycles) {
	long long begin = clock64();
	while (clock64() - begin < cycles)
		;
}`

// TestGPULaunch: a kernel of NVRTC's is loaded and launched, waits for what its buffers are written by, and holds them.
func TestGPULaunch(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	path, version, err := cuda.CompilerLibrary()
	must(t, err)
	t.Logf("%s, %s", path, version)
	var images [][]byte
	d, err := cuda.DeviceByOrdinal(device)
	must(t, err)
	for _, arch := range []string{fmt.Sprintf("compute_%d%d", d.Major, d.Minor),
		fmt.Sprintf("sm_%d%d", d.Major, d.Minor)} {
		code, err := cuda.Compile(ctx, saxpy, cuda.CompileOptions{Arch: arch, Name: "saxpy.cu"})
		must(t, err)
		t.Logf("%s: %d bytes, PTX %v", arch, len(code.Image), code.PTX)
		images = append(images, code.Image)
	}
	const n = 100_001
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	for i, image := range images {
		m, err := cuda.LoadModule(device, image)
		must(t, err)
		f, err := m.Function("saxpy")
		must(t, err)
		slow, err := m.Function("slow")
		must(t, err)
		blocks, err := f.Blocks(256, 0)
		must(t, err)
		if blocks < 1 || f.MaxThreads() < 256 || f.Registers() < 1 {
			t.Errorf("%d blocks, %d threads, %d registers", blocks, f.MaxThreads(), f.Registers())
		}
		first, second := deviceStream(t), deviceStream(t)
		y, x := deviceCopy(t, make([]byte, 4*n)), deviceCopy(t, elem.View(ones))
		_, err = first.Launch(slow, cuda.LaunchConfig{}, cuda.Val(int64(50_000_000)), cuda.AlsoOut(y))
		must(t, err)
		busy := y.Ready()
		if done, _ := busy.Query(); done {
			t.Error("the slow kernel is over at once")
		}
		grid := cuda.LaunchConfig{Grid: cuda.Dim{X: (n + 255) / 256}, Block: cuda.Dim{X: 256}}
		for range 3 { // on another stream, which waits for the slow one by y's event
			_, err = second.Launch(f, grid, cuda.Out(y), cuda.In(x), cuda.Val(float32(2)), cuda.Val(int32(n)))
			must(t, err)
		}
		if y.Ready() == busy {
			t.Error("the ready event is still the first launch's")
		}
		kept := y.Retain()
		got := elem.View(make([]float32, n))
		must(t, cuda.CopyToHost(ctx, got, kept))
		kept.Release()
		for at := 0; at < 4*n; at += 4 {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(got[at:])); v != 6 {
				t.Fatalf("image %d: element %d is %v", i, at/4, v)
			}
		}
		if done, err := busy.Query(); !done || err != nil {
			t.Errorf("the second stream did not wait: %v %v", done, err)
		}
		allocs := testing.AllocsPerRun(200, func() {
			if _, err := second.Launch(f, grid, cuda.Out(y), cuda.In(x), cuda.Val(float32(2)),
				cuda.Val(int32(n))); err != nil {
				t.Fatal(err)
			}
		})
		begin := time.Now()
		const launches = 2000
		for range launches {
			_, err := second.Launch(f, grid, cuda.Out(y), cuda.In(x), cuda.Val(float32(2)), cuda.Val(int32(n)))
			must(t, err)
		}
		t.Logf("a launch: %v allocations, %v", allocs, time.Since(begin)/launches)
		must(t, second.Wait(ctx))
		_, err = m.Function("none")
		if !errors.Is(err, cuda.ErrNotFound) || !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("%v", err)
		}
		_, err = first.Launch(f, cuda.LaunchConfig{Block: cuda.Dim{X: 4096}})
		if !errors.Is(err, cuda.ErrInvalidValue) {
			t.Errorf("%v", err)
		}
		must(t, m.Close())
		must(t, m.Close())
		if _, err := m.Function("saxpy"); !errors.Is(err, cuda.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	_, err = cuda.Compile(ctx, "nonsense", cuda.CompileOptions{Name: "bad.cu"})
	var bad *cuda.CompileError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "bad.cu") {
		t.Errorf("%v", err)
	}
	_, err = cuda.LoadModule(device, []byte(".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry f() { "+
		"nonsense; }\n"))
	if !errors.Is(err, cuda.ErrInvalidPTX) || !strings.Contains(err.Error(), "ptxas") {
		t.Errorf("%v", err)
	}
}

// TestGPUImages loads every image that the binary has.
func TestGPUImages(t *testing.T) {
	requireGPU(t)
	for _, spec := range kernels.Specs() {
		begin := time.Now()
		m, err := kernels.Load(device, spec.Name)
		must(t, err)
		t.Logf("%s: %v", spec.Name, time.Since(begin).Round(time.Millisecond))
		if again, err := kernels.Load(device, spec.Name); err != nil || again != m {
			t.Errorf("%s: loaded twice (%v)", spec.Name, err)
		}
	}
}
