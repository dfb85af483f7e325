package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
)

// table maps the handles of C to objects of Go. Handles are never used again, so that a stale one is an error.
type table[T any] struct {
	mu   sync.Mutex
	last uint64
	of   map[uint64]T
}

func (t *table[T]) add(v T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[uint64]T{}
	}
	t.last++
	t.of[t.last] = v
	return t.last
}

// get returns the object of a handle, or missing with the handle.
func (t *table[T]) get(id uint64, missing error) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.of[id]
	if !ok {
		return v, fmt.Errorf("%w (handle %d)", missing, id)
	}
	return v, nil
}

// remove removes a handle and returns its object. Of several concurrent calls one succeeds.
func (t *table[T]) remove(id uint64, missing error) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.of[id]
	if !ok {
		return v, fmt.Errorf("%w (handle %d)", missing, id)
	}
	delete(t.of, id)
	return v, nil
}

var (
	errNoComm    = errors.New("millstream: no such communicator: it was destroyed, or never opened")
	errNoRequest = errors.New("millstream: no such request: it was waited for already, or never started")
)

// Codes of millstream.h.
const (
	codeError     = 1
	codeMismatch  = 2
	codeRank      = 3
	codeTimeout   = 4
	codeInvalid   = 5
	codeClosed    = 6
	codeTruncated = 7
)

// code returns the code of an error.
func code(err error) int {
	var rank *clique.RankError
	var mismatch *clique.MismatchError
	var truncated *clique.TruncatedError
	switch {
	case errors.Is(err, errNoComm), errors.Is(err, errNoRequest):
		return codeClosed
	case errors.As(err, &rank):
		return codeRank
	case errors.As(err, &mismatch):
		return codeMismatch
	case errors.As(err, &truncated):
		return codeTruncated
	case errors.Is(err, member.ErrInvalid), errors.Is(err, member.ErrNotJoined):
		return codeInvalid
	case errors.Is(err, net.ErrClosed), errors.Is(err, clique.ErrClosed):
		return codeClosed
	case errors.Is(err, context.DeadlineExceeded):
		return codeTimeout
	}
	return codeError
}

// release returns the version of the module that the library was built from.
func release() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// seconds converts a time limit; 0 is none.
func seconds(s float64) time.Duration {
	if !(s > 0 && s < 1e9) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// kind returns the type of elements of a number of the interface, an unknown one if it is out of range.
func kind(n int32) clique.Kind {
	if n < 0 || n > math.MaxUint8 {
		return 0
	}
	return clique.Kind(n)
}
