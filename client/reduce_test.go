package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/client"
)

func TestTreeReduce(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	for n := 1; n <= 9; n++ {
		var parts []*client.Future[string]
		want := ""
		for i := range n {
			parts = append(parts, word.Submit(r.ctx, r.c, client.Val(i)))
			want += fmt.Sprint(i)
		}
		sum := client.TreeReduce(r.ctx, r.c, join, parts)
		if got, err := sum.Result(r.ctx); got != want || err != nil {
			t.Errorf("%d futures: got %q %v, want %q", n, got, err, want)
		}
		for i, p := range parts { // the caller still owns them
			if got, err := p.Result(r.ctx); got != fmt.Sprint(i) || err != nil {
				t.Errorf("%d futures: future %d: got %q %v, want %d", n, i, got, err, i)
			}
		}
	}
	if _, err := client.TreeReduce(r.ctx, r.c, join, nil).Result(r.ctx); err == nil ||
		!strings.Contains(err.Error(), "without futures") {
		t.Errorf("no futures: got %v, want an error that says so", err)
	}
}

var (
	word = client.Func("reduce.word", func(_ context.Context, i int) (string, error) { return fmt.Sprint(i), nil })
	join = client.Func2("reduce.join", func(_ context.Context, a, b string) (string, error) { return a + b, nil })
)
