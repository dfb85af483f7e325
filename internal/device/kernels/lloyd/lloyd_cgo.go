//go:build cgo

package lloyd

/*
#cgo CFLAGS: -O3 -std=gnu11 -Wall
#include "lloyd.h"

// No function here calls back into Go or keeps a pointer argument.
#cgo noescape ms_lloyd_pass_f64
#cgo nocallback ms_lloyd_pass_f64
#cgo noescape ms_lloyd_pass_f32
#cgo nocallback ms_lloyd_pass_f32
#cgo noescape ms_lloyd_inertia_f64
#cgo nocallback ms_lloyd_inertia_f64
#cgo noescape ms_lloyd_inertia_f32
#cgo nocallback ms_lloyd_inertia_f32
#cgo noescape ms_lloyd_distances_f64
#cgo nocallback ms_lloyd_distances_f64
#cgo noescape ms_lloyd_distances_f32
#cgo nocallback ms_lloyd_distances_f32
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// level is the instruction set in use; tests use lower ones too.
var level = int(C.ms_lloyd_level())

// Kernel returns the name of the code that runs.
func Kernel() string { return [...]string{"C", "C avx2", "C avx512"}[level] }

const noMemory = "lloyd: no memory"

// pinned returns an array of pointers to columns that C may dereference until unpin.
func pinned[T Float](columns [][]T) (pointers []*T, unpin func()) {
	p := new(runtime.Pinner)
	pointers = make([]*T, len(columns))
	for i, c := range columns {
		pointers[i] = unsafe.SliceData(c)
		p.Pin(pointers[i])
	}
	return pointers, p.Unpin
}

func ptr[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func pass[T Float](columns [][]T, centers, shift []T, labels []int32, sums []float64, counts []int64) int {
	pointers, unpin := pinned(columns)
	defer unpin()
	d := len(columns)
	n, cd, ck := C.long(len(labels)), C.int(d), C.int(len(centers)/d)
	l, s, c := (*C.int32_t)(ptr(labels)), (*C.double)(ptr(sums)), (*C.int64_t)(ptr(counts))
	var changed C.long
	if unsafe.Sizeof(*new(T)) == 8 {
		changed = C.ms_lloyd_pass_f64(C.int(level), (**C.double)(ptr(pointers)), n, cd, ck, (*C.double)(ptr(centers)),
			(*C.double)(ptr(shift)), l, s, c)
	} else {
		changed = C.ms_lloyd_pass_f32(C.int(level), (**C.float)(ptr(pointers)), n, cd, ck, (*C.float)(ptr(centers)),
			(*C.float)(ptr(shift)), l, s, c)
	}
	if changed < 0 {
		panic(noMemory)
	}
	return int(changed)
}

func inertia[T Float](columns [][]T, turned []T, k int, labels []int32) float64 {
	pointers, unpin := pinned(columns)
	defer unpin()
	n, d, l := C.long(len(labels)), C.int(len(columns)), (*C.int32_t)(ptr(labels))
	var sum C.double
	if unsafe.Sizeof(*new(T)) == 8 {
		sum = C.ms_lloyd_inertia_f64(C.int(level), (**C.double)(ptr(pointers)), n, d, C.int(k),
			(*C.double)(ptr(turned)), l)
	} else {
		sum = C.ms_lloyd_inertia_f32(C.int(level), (**C.float)(ptr(pointers)), n, d, C.int(k), (*C.float)(ptr(turned)),
			l)
	}
	if sum < 0 {
		panic(noMemory)
	}
	return float64(sum)
}

func distances[T Float](columns [][]T, point []T, out []float64) {
	pointers, unpin := pinned(columns)
	defer unpin()
	n, d, o := C.long(len(out)), C.int(len(columns)), (*C.double)(ptr(out))
	var failed C.int
	if unsafe.Sizeof(*new(T)) == 8 {
		failed = C.ms_lloyd_distances_f64(C.int(level), (**C.double)(ptr(pointers)), n, d, (*C.double)(ptr(point)), o)
	} else {
		failed = C.ms_lloyd_distances_f32(C.int(level), (**C.float)(ptr(pointers)), n, d, (*C.float)(ptr(point)), o)
	}
	if failed != 0 {
		panic(noMemory)
	}
}
