package benchpeer

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnswerLines(t *testing.T) {
	type number struct{ N int }
	double := func(c number) number { return number{2 * c.N} }
	for in, want := range map[string]string{"": "", "{\"N\":1}\n{\"N\":3}\n": "{\"N\":2}\n{\"N\":6}\n"} {
		var out strings.Builder
		if err := AnswerLines(strings.NewReader(in), &out, double); err != nil || out.String() != want {
			t.Errorf("%q: %q, %v", in, out.String(), err)
		}
	}
	var out strings.Builder
	if err := AnswerLines(strings.NewReader("{\"N\":1}\nx\n{\"N\":2}\n"), &out, double); err == nil ||
		!strings.Contains(err.Error(), `"x"`) || out.String() != "{\"N\":2}\n" {
		t.Errorf("a line that is no command: %q, %v", out.String(), err)
	}
	broken := errors.New("broken")
	if err := AnswerLines(iotest.ErrReader(broken), &out, double); !errors.Is(err, broken) {
		t.Errorf("a broken input: %v", err)
	}
}
