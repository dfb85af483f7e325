//go:build cgo

package native

// #cgo LDFLAGS: -ldl -lpthread
// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/mem"
)

// Library is a shared library with algorithms. It stays loaded.
type Library struct {
	path string
	lib  unsafe.Pointer
}

// Algorithm is a function of a library.
type Algorithm struct {
	l    *Library
	name string
	f    unsafe.Pointer
}

// Open loads the library at path. The initializers of the library run immediately.
func Open(path string) (*Library, error) {
	path, err := filepath.Abs(path) // a bare name would be searched for in the system's folders
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message [1024]C.char
	var abi C.uint
	lib := C.native_open(name, &abi, &message[0], C.size_t(len(message)))
	switch {
	case lib == nil:
		return nil, fmt.Errorf("native: %s", C.GoString(&message[0]))
	case abi == 0:
		return nil, fmt.Errorf("native: %s has no millstream_native_abi: compile the library against "+
			"millstream_native.h", path)
	case abi != C.MS_NATIVE_ABI:
		return nil, fmt.Errorf("native: %s was compiled against version %d of millstream_native.h, but this program "+
			"has version %d", path, abi, C.MS_NATIVE_ABI)
	}
	return &Library{path, lib}, nil
}

// Path returns the path of the library.
func (l *Library) Path() string { return l.path }

// Algorithm returns the algorithm with a name.
func (l *Library) Algorithm(name string) (*Algorithm, error) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	f := C.native_symbol(l.lib, s)
	if f == nil {
		return nil, fmt.Errorf("native: %s does not export %q; declare the function extern \"C\"", l.path, name)
	}
	return &Algorithm{l, name, f}, nil
}

// Name returns the name of the algorithm.
func (a *Algorithm) Name() string { return a.name }

// Run runs the algorithm on this rank and returns the columns that it has emitted here. Every rank must call it. Run
// returns after the algorithm; if the context ends, the operations of the algorithm fail.
func (a *Algorithm) Run(ctx context.Context, r *clique.Rank, call Call) ([]Result, error) {
	for i, p := range call.Partitions {
		if err := p.check(i); err != nil {
			return nil, err
		}
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	parts, free := partitions(call.Partitions, &pins)
	defer free()
	for _, p := range call.Partitions {
		for _, c := range p {
			if c.Data == nil {
				continue
			}
			defer c.Data.Retain().Release()
			if !c.Data.Kind().HostAccessible() {
				continue // the stream waits for its ready event
			}
			if err := c.Data.WaitReady(ctx); err != nil {
				return nil, err
			}
		}
	}
	dev, err := newDevice(ctx, r, call)
	if err != nil {
		return nil, err
	}
	defer dev.free()
	params := unsafe.Pointer(unsafe.SliceData(call.Parameters))
	if len(call.Parameters) > 0 {
		pins.Pin(params)
	}
	var message [256]C.char
	run := C.native_start(a.f, C.int(r.Rank()), C.int(r.Size()), dev.c(), C.uint64_t(len(call.Partitions)), parts,
		params, C.uint64_t(len(call.Parameters)), &message[0], C.size_t(len(message)))
	if run == nil {
		return nil, fmt.Errorf("native: %s of %s: %s", a.name, a.l.path, C.GoString(&message[0]))
	}
	s := &service{ctx: ctx, r: r, dev: dev}
	code := s.serve(run)
	why := C.GoString(C.native_reason(run))
	C.native_reply(run, 0, nil)
	C.native_free(run)
	runtime.KeepAlive(call)
	waited := dev.wait(ctx) // the algorithm may use the partitions until then
	if code == 0 && waited != nil {
		s.release()
		return nil, waited
	}
	if code != 0 {
		s.release()
		e := &Error{Library: a.l.path, Algorithm: a.name, Code: code, Reason: why}
		if s.last != nil && why == truncate(s.last) {
			e.Err = s.last
		}
		return nil, e
	}
	return s.results, nil
}

// partitions copies the descriptions of partitions into C memory and pins columns in Go memory.
func partitions(in []Partition, pins *runtime.Pinner) (*C.ms_partition, func()) {
	if len(in) == 0 {
		return nil, func() {}
	}
	n := 0
	for _, p := range in {
		n += len(p)
	}
	parts := (*C.ms_partition)(C.calloc(C.size_t(len(in)), C.sizeof_ms_partition))
	columns := (*C.ms_column)(C.calloc(C.size_t(max(1, n)), C.sizeof_ms_column))
	ps, cs := unsafe.Slice(parts, len(in)), unsafe.Slice(columns, max(1, n))
	for i, p := range in {
		ps[i].ncolumns = C.uint64_t(len(p))
		ps[i].columns = (*C.ms_column)(unsafe.Pointer(unsafe.SliceData(cs)))
		for j, c := range p {
			ps[i].rows = C.uint64_t(c.Len())
			cs[j] = C.ms_column{count: C.uint64_t(c.Len()), kind: C.int32_t(c.Kind), device: -1}
			if c.Data == nil {
				continue
			}
			// A column without rows has the memory kind of its buffer.
			cs[j].memory = C.int32_t(c.Data.Kind())
			if d := c.Data.Device(); !c.Data.Kind().HostAccessible() {
				cs[j].device = C.int32_t(d)
			}
			if c.Data.Len() == 0 {
				continue
			}
			if c.Data.Region().GoHeap() {
				pins.Pin(unsafe.SliceData(c.Data.Bytes()))
			}
			cs[j].data = pointer(c.Data.Addr())
		}
		cs = cs[len(p):]
	}
	return parts, func() {
		C.free(unsafe.Pointer(columns))
		C.free(unsafe.Pointer(parts))
	}
}

// pointer returns an address of memory that does not move: pinned, or not Go memory.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// serve serves the requests of the algorithm until it returns.
func (s *service) serve(run *C.native_run) int {
	for {
		q := C.native_next(run)
		if q.what == C.REQ_RETURNED {
			return int(q.code)
		}
		err := s.request(q)
		s.last = err
		if err == nil {
			C.native_reply(run, C.MS_OK, nil)
			continue
		}
		text := C.CString(truncate(err))
		C.native_reply(run, C.int(codeOf(err)), text)
		C.free(unsafe.Pointer(text))
	}
}

// truncate returns the text of an error, cut to fit into the buffer of the C side.
func truncate(err error) string {
	const n = 1000
	if t := err.Error(); len(t) > n {
		return t[:n]
	}
	return err.Error()
}

var errInvalid = errors.New("invalid argument")

// codeOf returns the status code for an error.
func codeOf(err error) int {
	var rank *clique.RankError
	var mismatch *clique.MismatchError
	switch {
	case errors.Is(err, errInvalid):
		return C.MS_INVALID
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return C.MS_CANCELED
	case errors.As(err, &mismatch):
		return C.MS_MISMATCH
	case errors.As(err, &rank):
		return C.MS_RANK
	}
	return C.MS_ERROR
}

// request runs one operation.
func (s *service) request(q *C.native_request) error {
	in := request{what: int(q.what), count: uint64(q.count), kind: clique.Kind(q.kind), op: int(q.op),
		peer: int(q.peer), memory: mem.Kind(q.memory), tag: uint64(q.tag), send: q.send, recv: q.recv}
	got, err := s.do(in)
	q.received = C.uint64_t(got)
	return err
}
