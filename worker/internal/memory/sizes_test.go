package memory

import (
	"fmt"
	"testing"
)

func TestSizes(t *testing.T) {
	var e sizes
	if n := e.expected("f"); n != 0 {
		t.Errorf("nothing is known of f: %d", n)
	}
	e.observe("f", 100)
	if n := e.expected("f"); n != 0 || len(e.largest) != 0 {
		t.Errorf("small results are not worth knowing: %d", n)
	}
	e.observe("f", 8<<20)
	e.observe("g", 3<<20)
	if e.expected("f") != 8<<20 || e.of("g") != 3<<20 {
		t.Errorf("f %d, g %d", e.expected("f"), e.of("g"))
	}
	e.observe("f", 2<<20)
	if n := e.expected("f"); n != 7<<20 {
		t.Errorf("a smaller one does not make the larger one forgotten: %d", n)
	}
	e.observe("f", 9<<20)
	if n := e.expected("f"); n != 9<<20 {
		t.Errorf("a larger one counts at once: %d", n)
	}
	for range 50 {
		e.observe("f", 1)
	}
	if n := e.expected("f"); n != 0 || len(e.largest) != 1 {
		t.Errorf("in the end it is forgotten: %d, %d known", n, len(e.largest))
	}
	for i := range maxFunctions + 10 {
		e.observe(fmt.Sprint(i), largeResult)
	}
	if n := len(e.largest); n > maxFunctions {
		t.Errorf("%d functions are remembered", n)
	}
}
