//go:build cgo

package main

// #include "exports.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"go.millstream.dev/cmd/libmillstream/internal/learn"
	"go.millstream.dev/cmd/libmillstream/internal/member"
)

// tableOf converts the arrays of a rank. Memory stays that of the caller.
func tableOf(o *C.millstream_v1_learn, parts *C.millstream_v1_part, n C.size_t, host C.int) learn.Table {
	t := learn.Table{Kind: kind(int32(o.dtype)), Columns: int(o.columns), Total: int(min(o.parts, math.MaxInt32)),
		Threads: int(o.threads), Host: host != 0}
	for _, p := range unsafe.Slice(parts, int(n)) {
		t.Parts = append(t.Parts, learn.Part{Data: uintptr(p.data), Rows: uint64(p.rows), Stride: uint64(p.stride),
			Index: uint64(p.index), Labels: uintptr(unsafe.Pointer(p.labels))})
	}
	return t
}

// centersOf returns the centers of the caller, nil if their number is out of range, which the algorithm reports.
func centersOf(o *C.millstream_v1_learn) []float64 {
	if o.clusters < 1 || o.columns < 1 || o.clusters > 1<<20 || o.columns > 1<<20 {
		return nil
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(o.centers)), int(o.clusters)*int(o.columns))
}

//export millstreamKMeansFit
func millstreamKMeansFit(id C.millstream_v1_comm, o *C.millstream_v1_learn, parts *C.millstream_v1_part, n C.size_t,
	host C.int, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	centers := centersOf(o)
	with := learn.KMeans{K: int(o.clusters), MaxIter: int(o.max_iter), Tol: float64(o.tol), Seed: uint32(o.seed)}
	if o.plusplus == 0 {
		with.Centers = centers
	}
	out, err := learn.Fit(m, tableOf(o, parts, n, host), with)
	if err != nil {
		return result(err, f)
	}
	if len(out.Centers) != len(centers) {
		return result(fmt.Errorf("millstream: kmeans_fit: %w: got %d coordinates of centers, want %d",
			member.ErrInvalid, len(out.Centers), len(centers)), f)
	}
	copy(centers, out.Centers)
	o.inertia, o.iterations, o.rows = C.double(out.Inertia), C.int32_t(out.Iterations), C.uint64_t(out.Rows)
	o.converged = 0
	if out.Converged {
		o.converged = 1
	}
	return C.MILLSTREAM_OK
}

//export millstreamKMeansPredict
func millstreamKMeansPredict(o *C.millstream_v1_learn, parts *C.millstream_v1_part, n C.size_t, host C.int,
	f *C.failure) C.int {
	return result(learn.Predict(context.Background(), tableOf(o, parts, n, host), centersOf(o)), f)
}

//export millstreamTallReduce
func millstreamTallReduce(id C.millstream_v1_comm, o *C.millstream_v1_learn, parts *C.millstream_v1_part, n C.size_t,
	host C.int, mean, triangle *C.double, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	s, err := learn.Summarize(m, tableOf(o, parts, n, host))
	if err != nil {
		return result(err, f)
	}
	d := len(s.Mean)
	copy(unsafe.Slice((*float64)(unsafe.Pointer(mean)), d), s.Mean)
	r := unsafe.Slice((*float64)(unsafe.Pointer(triangle)), d*d)
	for j := range d {
		for i := range d {
			r[j*d+i] = s.R.At(i, j)
		}
	}
	o.rows = C.uint64_t(s.Rows)
	return C.MILLSTREAM_OK
}
