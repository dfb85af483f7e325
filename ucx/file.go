package ucx

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"time"
)

// RemoteFile shows a peer's memory as a file of fixed length: an [io.ReaderAt],
// [io.WriterAt], [io.Reader], [io.Writer] and [io.Seeker]. Reads are Gets, writes are
// Puts that have arrived in the peer's memory when the call returns. ReadAt and
// WriteAt may be used by any number of goroutines; the peer's program takes no part.
//
// It owns neither endpoint nor key, so there is no Close.
type RemoteFile struct {
	ctx context.Context
	ep  *Endpoint
	rk  *RemoteKey

	mu  sync.Mutex // guards pos
	pos int64
}

// NewRemoteFile makes a file of the peer's memory. The methods of package io have no
// context: use WithContext, or readAt and writeAt, to bound their waiting.
func NewRemoteFile(ep *Endpoint, rk *RemoteKey) *RemoteFile {
	return &RemoteFile{ctx: background, ep: ep, rk: rk}
}

// WithContext returns a file on the same memory, with a position of its own at the
// start, whose methods end when ctx does. A transfer that is cut off so closes the
// endpoint by force, as [Endpoint.Get] does.
func (f *RemoteFile) WithContext(ctx context.Context) *RemoteFile {
	return &RemoteFile{ctx: ctx, ep: f.ep, rk: f.rk}
}

// Size returns the length of the remote memory in bytes.
func (f *RemoteFile) Size() int64 { return f.rk.Len() }

// ReadAt implements [io.ReaderAt]: fewer bytes than len(p) come with io.EOF.
func (f *RemoteFile) ReadAt(p []byte, off int64) (int, error) { return f.readAt(f.ctx, p, off) }

// readAt is ReadAt with a context.
func (f *RemoteFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.badOffset("read", off)
	}
	n := f.fit(len(p), off)
	done, err := f.move(ctx, p[:n], off, f.ep.Get, f.ep.StartGet)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return done, err
}

// WriteAt implements [io.WriterAt]. The memory does not grow: what lies beyond its
// end is not written and reported as [io.ErrShortWrite].
func (f *RemoteFile) WriteAt(p []byte, off int64) (int, error) {
	return f.writeAt(f.ctx, p, off)
}

// writeAt is WriteAt with a context.
func (f *RemoteFile) writeAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.badOffset("write", off)
	}
	n := f.fit(len(p), off)
	done, err := f.move(ctx, p[:n], off, f.ep.Put, f.ep.StartPut)
	if err == nil && n > 0 {
		if err = f.ep.Flush(ctx); err != nil {
			done = 0 // what has arrived is not known
		}
	}
	if err == nil && n < len(p) {
		err = fmt.Errorf("ucx: write of %d bytes at offset %d goes beyond the remote memory of %d bytes: %w", len(p),
			off, f.Size(), io.ErrShortWrite)
	}
	return done, err
}

// fit returns how many of n bytes at off lie within the memory.
func (f *RemoteFile) fit(n int, off int64) int {
	if left := f.Size() - off; left < int64(n) {
		return int(max(left, 0))
	}
	return n
}

func (f *RemoteFile) badOffset(op string, off int64) error {
	return &OpError{Op: op + " remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: offset %d is before the "+
		"start: %w", off, fs.ErrInvalid)}
}

// Read implements [io.Reader] at the file's position.
func (f *RemoteFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	off, n := f.reserve(len(p))
	if n == 0 {
		return 0, io.EOF
	}
	done, err := f.ReadAt(p[:n], off)
	f.unreserve(off, n, done)
	return done, err
}

// Write implements [io.Writer] at the file's position.
func (f *RemoteFile) Write(p []byte) (int, error) {
	off, n := f.reserve(len(p))
	done, err := f.WriteAt(p, off)
	f.unreserve(off, n, done)
	return done, err
}

// reserve takes the next bytes, so that no lock is held while they travel.
func (f *RemoteFile) reserve(n int) (off int64, got int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	off = f.pos
	got = f.fit(n, off)
	f.pos += int64(got)
	return off, got
}

// unreserve takes the position back over what did not travel, unless it was moved.
func (f *RemoteFile) unreserve(off int64, n, done int) {
	if done == n {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pos == off+int64(n) {
		f.pos = off + int64(done)
	}
}

// Seek implements [io.Seeker]. Positions beyond the end are allowed, as in a file:
// reads there return io.EOF.
func (f *RemoteFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = f.pos
	case io.SeekEnd:
		base = f.Size()
	default:
		return 0, &OpError{Op: "seek remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: whence %d is none of "+
			"io.SeekStart, io.SeekCurrent, io.SeekEnd: %w", whence, fs.ErrInvalid)}
	}
	if offset > math.MaxInt64-base {
		return 0, &OpError{Op: "seek remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: %d bytes from %d is no "+
			"position: %w", offset, base, fs.ErrInvalid)}
	}
	pos := base + offset
	if pos < 0 {
		return 0, f.badOffset("seek", pos)
	}
	f.pos = pos
	return pos, nil
}

// A long transfer is cut into chunks, of which several are under way at a time.
const (
	fileChunk  = 1 << 20
	fileWindow = 4
)

type (
	blockingTransfer func(context.Context, View, *RemoteKey, int64) error
	startedTransfer  func(View, *RemoteKey, int64) *Request
)

// move transfers p and returns how much of its beginning is through.
func (f *RemoteFile) move(ctx context.Context, p []byte, off int64, whole blockingTransfer,
	start startedTransfer) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(p) <= fileChunk {
		if err := whole(ctx, Bytes(p), f.rk, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	var window [fileWindow]*Request // chunk i is at i%fileWindow
	started, done := 0, 0           // chunks
	chunks := (len(p) + fileChunk - 1) / fileChunk
	for done < chunks {
		for started < chunks && started < done+fileWindow {
			at := started * fileChunk
			window[started%fileWindow] = start(Bytes(p[at:min(at+fileChunk, len(p))]), f.rk, off+int64(at))
			started++
		}
		if err := window[done%fileWindow].Wait(ctx); err != nil {
			f.reclaim(ctx, window[:])
			return done * fileChunk, err
		}
		done++
	}
	return len(p), nil
}

// reclaim returns when UCX has given back the memory of all requests: after a failed
// one the others end by themselves or with the context, then with the endpoint.
func (f *RemoteFile) reclaim(ctx context.Context, window []*Request) {
	for _, r := range window {
		if r != nil && r.Wait(ctx) != nil && ctx.Err() != nil && r.state.Load() != reqDone {
			f.ep.abort(&abortError{context.Cause(ctx)})
			break
		}
	}
	timer := time.NewTimer(forceWait)
	defer timer.Stop()
	for _, r := range window {
		if r == nil {
			continue
		}
		select {
		case <-r.Done():
		case <-timer.C:
			logf("%v", errMemoryKept(r.op.String()))
			return
		}
	}
}
