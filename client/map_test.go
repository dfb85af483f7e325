package client_test

import (
	"errors"
	"slices"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
)

func TestMapGather(t *testing.T) {
	for _, address := range transports {
		t.Run(address, func(t *testing.T) { testMapGather(t, address) })
	}
}

func testMapGather(t *testing.T, address string) {
	r := newRigWith(t, address, 2, scheduler.Config{}) // validation after each event takes too long
	n := 9000                                          // two messages
	if address == "inproc://" {
		n = 1000
	}
	in := make([]int, n)
	for i := range in {
		in[i] = i
	}
	futures := inc.Map(r.ctx, r.c, in)
	out := must[[]int](t)(client.Gather(r.ctx, futures))
	for i, v := range out {
		if v != i+1 {
			t.Fatalf("result %d is %d", i, v)
		}
	}
}

func TestErrors(t *testing.T) {
	eachTransport(t, 1, func(t *testing.T, r *rig) {
		f := fail.Submit(r.ctx, r.c, client.Val("out of cheese"))
		_, err := f.Result(r.ctx)
		var te *client.TaskError
		if !errors.As(err, &te) || te.Text != "out of cheese" {
			t.Fatalf("got %v, want a TaskError with the text out of cheese", err)
		}
		_, err = explode.Submit(r.ctx, r.c, client.Val("bang")).Result(r.ctx)
		if !errors.As(err, &te) || te.Stack == "" {
			t.Fatalf("got %+v with stack %q, want a stack", err, te.Stack)
		}
		t.Log(te.Error(), te.Exception)
	})
}

// Equal inputs are one task, whose result all of their futures have.
func TestMapOfEqualInputs(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	futures := inc.Map(r.ctx, r.c, []int{1, 2, 1, 1})
	got, err := client.Gather(r.ctx, futures)
	if err != nil || !slices.Equal(got, []int{2, 3, 2, 2}) {
		t.Errorf("got %v, %v", got, err)
	}
	futures[0].Release()
	if v, err := futures[2].Result(r.ctx); v != 2 || err != nil {
		t.Errorf("after another future of the key was released: %v, %v", v, err)
	}
}
