package client_test

import (
	"testing"

	"go.millstream.dev/client"
)

func TestSubmit(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		a := inc.Submit(r.ctx, r.c, client.Val(1))
		b := add.Submit(r.ctx, r.c, a, client.Val(40))
		if v := must[int](t)(b.Result(r.ctx)); v != 42 {
			t.Fatalf("got %d, want 42", v)
		}
		if a.Key() != inc.Submit(r.ctx, r.c, client.Val(1)).Key() {
			t.Error("equal calls have two keys, want one")
		}
	})
}
