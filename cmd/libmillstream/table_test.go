package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
)

// TestTable: a handle is valid until it is removed, and is not used again.
func TestTable(t *testing.T) {
	var table table[string]
	missing := errors.New("missing")
	if _, err := table.get(0, missing); !errors.Is(err, missing) {
		t.Errorf("handle 0: got %v, want %v", err, missing)
	}
	a, b := table.add("a"), table.add("b")
	if a == 0 || b == 0 || a == b {
		t.Fatalf("got handles %d and %d", a, b)
	}
	if v, err := table.remove(a, missing); v != "a" || err != nil {
		t.Errorf("remove: got %q, %v", v, err)
	}
	if _, err := table.remove(a, missing); !errors.Is(err, missing) {
		t.Errorf("remove twice: got %v, want %v", err, missing)
	}
	if c := table.add("c"); c == a || c == b {
		t.Errorf("handle %d is used again", c)
	}
	if v, err := table.get(b, missing); v != "b" || err != nil {
		t.Errorf("get: got %q, %v", v, err)
	}
}

// TestCode: the code of each error, also of a wrapped one.
func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), codeError},
		{&clique.MismatchError{}, codeMismatch},
		{&clique.RankError{Err: context.DeadlineExceeded}, codeRank},
		{context.DeadlineExceeded, codeTimeout},
		{member.ErrInvalid, codeInvalid},
		{member.ErrNotJoined, codeInvalid},
		{errNoComm, codeClosed},
		{errNoRequest, codeClosed},
		{member.ErrClosed, codeClosed},
		{clique.ErrClosed, codeClosed},
		{&clique.TruncatedError{}, codeTruncated},
	} {
		if got := code(fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

func TestConversions(t *testing.T) {
	for s, want := range map[float64]time.Duration{-1: 0, 0: 0, 0.5: time.Second / 2, 1e9: 0, 2: 2 * time.Second} {
		if got := seconds(s); got != want {
			t.Errorf("%v s: got %v, want %v", s, got, want)
		}
	}
	for n, want := range map[int32]clique.Kind{-1: 0, 0: 0, 3: 3, 255: 255, 256: 0} {
		if got := kind(n); got != want {
			t.Errorf("dtype %d: got %v, want %v", n, got, want)
		}
	}
	if release() == "" {
		t.Error("the release is empty")
	}
}
