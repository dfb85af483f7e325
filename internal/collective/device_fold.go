package collective

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// maxFold is how many sources and targets a kernel takes: the most ranks whose memory is reached directly.
const maxFold = 64

// foldCall is the argument of the kernels of internal/device/kernels/fold.cu, whose fold_call it is.
type foldCall struct {
	count            uint64 // elements
	sources, targets uint32
	ranks            uint32 // what avg divides by
	_                uint32
	source           [maxFold]uint64
	target           [maxFold]uint64
	scale            [maxFold]uint64 // premulsum's, of each source
}

// launchFold enqueues a reduction. reads and writes are the buffers behind the addresses, which it holds.
func launchFold(s *cuda.Stream, k Kind, op opCode, f *foldCall, reads, writes []*mem.Buffer) (*cuda.Event, error) {
	if !k.Valid() || op < opSum || op > opPreMulSum {
		return nil, fmt.Errorf("collective: no kernel for %v of %v", op, k)
	}
	fn, err := kernels.Function(s.Device(), "fold_"+k.String(), "fold_"+op.String())
	if err != nil {
		return nil, err
	}
	// Enough threads to keep the memory busy: one for each 16 bytes, up to what the device holds at once.
	const threads = 256
	work := int(f.count)*k.Size()/16 + 1
	blocks := min((work+threads-1)/threads, 16*132)
	args := make([]cuda.Arg, 0, 1+len(reads)+len(writes))
	args = append(args, cuda.Struct(unsafe.Slice((*byte)(unsafe.Pointer(f)), unsafe.Sizeof(*f))))
	for _, b := range reads {
		args = append(args, cuda.AlsoIn(b))
	}
	for _, b := range writes {
		args = append(args, cuda.AlsoOut(b))
	}
	return s.Launch(fn, cuda.LaunchConfig{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: threads}}, args...)
}

// FoldDevice sets dst to the sources put together by op from the left, as a collective of as many ranks would: PreMulSum
// takes the same scale for all of them. dst may be one of the sources. It is enqueued on a stream.
func FoldDevice(s *cuda.Stream, dst *mem.Buffer, sources []*mem.Buffer, k Kind, op Op) (*cuda.Event, error) {
	if len(sources) == 0 || len(sources) > maxFold || !k.Valid() || !op.Valid() {
		return nil, fmt.Errorf("collective: %v of %d buffers of %v", op, len(sources), k)
	}
	f := foldCall{count: uint64(dst.Len() / k.Size()), sources: uint32(len(sources)), targets: 1, ranks: uint32(len(sources))}
	f.target[0] = uint64(dst.Addr())
	for i, b := range sources {
		if b.Len() != dst.Len() || dst.Len()%k.Size() != 0 {
			return nil, fmt.Errorf("collective: %d bytes of %v into %d", b.Len(), k, dst.Len())
		}
		f.source[i], f.scale[i] = uint64(b.Addr()), op.scale
	}
	return launchFold(s, k, op.code, &f, sources, []*mem.Buffer{dst})
}

// FoldHost is FoldDevice on host memory, with an operation for each source, as PreMulSum has a scale for each rank. It
// is what the kernels are compared with.
func FoldHost(dst []byte, sources [][]byte, k Kind, ops []Op) {
	if len(dst) == 0 {
		return
	}
	own := make([][]byte, len(sources))
	for i, s := range sources {
		own[i] = make([]byte, len(s))
		prepare(own[i], s, k, ops[i])
	}
	foldAll(dst, own, k, ops[0].code)
	conclude(dst, k, ops[0].code, len(sources))
}
