package pyproc

import (
	"fmt"
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	l := &lines{}
	o := &output{log: newLogger(l)}
	fmt.Fprint(o, "one\n\ntw")
	fmt.Fprint(o, "o\r\n"+strings.Repeat("x", 3*lineLength)+"\nbytes \xff\nlast")
	if got := o.last(); got != "last" {
		t.Errorf("last: got %q, want last", got)
	}
	got := l.all()
	if len(got) != 5 || got[0] != "one" || got[1] != "two" || len(got[2]) != lineLength || got[3] != "bytes \uFFFD" {
		t.Errorf("lines %.40q", got)
	}
	for i := range 3 * lineRate {
		fmt.Fprintf(o, "%d\n", i)
	}
	if n := len(l.all()); n > 2*lineRate+10 {
		t.Errorf("%d lines were logged", n)
	}
}
