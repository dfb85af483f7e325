package ucxbench

import (
	"bytes"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 64, 1000, 1023} {
		b := make([]byte, n)
		pattern(b, 42)
		if i := firstDifference(b, 42); i != -1 {
			t.Errorf("%d bytes: differs from itself at %d", n, i)
		}
		if n > 0 && firstDifference(b, 44) == -1 {
			t.Errorf("%d bytes: two seeds give one pattern", n)
		}
		for _, i := range []int{0, n / 2, n - 1} {
			if i < 0 || i >= n {
				continue
			}
			b[i] ^= 1
			if got := firstDifference(b, 42); got != i {
				t.Errorf("%d bytes: change at %d found at %d", n, i, got)
			}
			b[i] ^= 1
		}
	}
	// A message shifted by a word, or whose second half repeats its first, is wrong.
	b := make([]byte, 256)
	pattern(b, 7)
	if firstDifference(append(bytes.Clone(b[8:]), b[:8]...), 7) == -1 ||
		firstDifference(append(bytes.Clone(b[:128]), b[:128]...), 7) == -1 {
		t.Error("a shifted or repeated payload looks right")
	}
}

func TestPayload(t *testing.T) {
	for _, memory := range []string{MemHeap, MemBuffer} {
		t.Run(memory, func(t *testing.T) {
			p, err := newPayload(t.Context(), memory, 1000, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.release()
			if p.view.Len() != 1000 {
				t.Errorf("view of %d bytes", p.view.Len())
			}
			if err := p.fill(5); err != nil {
				t.Fatal(err)
			}
			if err := p.check(5); err != nil {
				t.Error(err)
			}
			if err := p.check(9); err == nil || !strings.Contains(err.Error(), "differs at byte 0") {
				t.Errorf("error %v", err)
			}
			if err := p.clear(); err != nil || p.check(5) == nil {
				t.Errorf("cleared payload passes the check (%v)", err)
			}
			for _, i := range []int{0, guard - 1, guard + 1000, len(p.all) - 1} {
				if err := p.fill(5); err != nil {
					t.Fatal(err)
				}
				p.all[i]++
				if err := p.check(5); err == nil || !strings.Contains(err.Error(), "outside the payload") {
					t.Errorf("guard byte %d: %v", i, err)
				}
				p.guards()
			}
		})
	}
	if _, err := newPayload(t.Context(), "paper", 8, nil, nil); err == nil ||
		!strings.Contains(err.Error(), `unknown memory "paper"`) {
		t.Errorf("error %v", err)
	}
}
