package peermem

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// chunkSize is how many bytes are read with one call: between two, a reader checks its context.
	chunkSize = 1 << 20
	// maxReaders bounds the goroutines that read one reply. One does not use the bandwidth of the memory.
	maxReaders = 8
)

// chunk is a part of a frame, and its address in the memory of the peer.
type chunk struct {
	dst  []byte
	addr uintptr
}

// appendChunks divides memory of a peer.
func appendChunks(list []chunk, dst []byte, addr uintptr) []chunk {
	for len(dst) > 0 {
		n := min(len(dst), chunkSize)
		list = append(list, chunk{dst[:n:n], addr})
		dst, addr = dst[n:], addr+uintptr(n)
	}
	return list
}

// readAll reads chunks, by several goroutines if there are several. It returns when none of them runs.
func readAll(ctx context.Context, pid int, todo []chunk) error {
	var next atomic.Int64
	work := func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(todo) {
				return nil
			}
			err := ctx.Err()
			if err == nil {
				err = readFull(pid, todo[i].dst, todo[i].addr)
			}
			if err != nil {
				next.Store(int64(len(todo)))
				return err
			}
		}
	}
	readers := min(len(todo), maxReaders, runtime.GOMAXPROCS(0), runtime.NumCPU())
	if readers <= 1 {
		return work()
	}
	var first error
	var mu sync.Mutex // guards first
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			if err := work(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	all.Wait()
	return first
}

// readFull reads memory of a process.
func readFull(pid int, dst []byte, addr uintptr) error {
	for len(dst) > 0 {
		local := []unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: addr, Len: len(dst)}}, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return io.ErrUnexpectedEOF
		}
		dst, addr = dst[n:], addr+uintptr(n)
	}
	return nil
}
