package memory

import (
	"fmt"
	"testing"
)

func TestSizes(t *testing.T) {
	var e sizes
	if n := e.expected("f"); n != 0 {
		t.Errorf("unknown function: got %d, want 0", n)
	}
	e.observe("f", 100)
	if n := e.expected("f"); n != 0 || len(e.largest) != 0 {
		t.Errorf("small results: got %d, want 0", n)
	}
	e.observe("f", 8<<20)
	e.observe("g", 3<<20)
	if e.expected("f") != 8<<20 || e.expected("g") != 3<<20 {
		t.Errorf("f %d, g %d", e.expected("f"), e.expected("g"))
	}
	e.observe("f", 2<<20)
	if n := e.expected("f"); n != 7<<20 {
		t.Errorf("after a smaller result: got %d, want 7 MiB", n)
	}
	e.observe("f", 9<<20)
	if n := e.expected("f"); n != 9<<20 {
		t.Errorf("after a larger result: got %d, want 9 MiB", n)
	}
	for range 50 {
		e.observe("f", 1)
	}
	if n := e.expected("f"); n != 0 || len(e.largest) != 1 {
		t.Errorf("after many small results: got %d, %d functions, want 0, 1", n, len(e.largest))
	}
	for i := range maxFunctions + 10 {
		e.observe(fmt.Sprint(i), largeResult)
	}
	if n := len(e.largest); n > maxFunctions {
		t.Errorf("got %d functions", n)
	}
}
