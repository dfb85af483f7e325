package collective

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// TestTurns checks that turns are granted in the order of requests, without those that were withdrawn.
func TestTurns(t *testing.T) {
	ctx := testContext(t)
	var q turns
	if q.enqueue() != nil {
		t.Fatal("the first has to wait")
	}
	const n = 20
	places := make([]*turn, n)
	for i := range places {
		if places[i] = q.enqueue(); places[i] == nil {
			t.Fatalf("place %d has come while another has the turn", i)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	gone := make(chan struct{})
	close(gone)
	for i, stop := range map[int]func(w *turn) bool{
		3: func(w *turn) bool { return q.wait(canceled, w, nil, nil) },
		7: func(w *turn) bool { return q.wait(ctx, w, gone, nil) },
		9: func(w *turn) bool { return q.wait(ctx, w, nil, gone) },
	} {
		if stop(places[i]) {
			t.Errorf("place %d was not given back", i)
		}
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i, w := range places {
		if i == 3 || i == 7 || i == 9 {
			continue
		}
		all.Go(func() {
			if !q.wait(ctx, w, nil, nil) {
				t.Errorf("place %d never came", i)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			q.done()
		})
	}
	q.done()
	all.Wait()
	last := -1
	for _, i := range order {
		if i < last {
			t.Fatalf("order %v", order)
		}
		last = i
	}
	if len(order) != n-3 {
		t.Errorf("%d turns, want %d", len(order), n-3)
	}
	if q.enqueue() != nil {
		t.Error("the turn was not passed on in the end")
	}
}

// TestTurnThatCameMeanwhile: a turn that came while its waiter gave up goes to the next.
func TestTurnThatCameMeanwhile(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 { // select takes either
		var q turns
		q.enqueue()
		first, second := q.enqueue(), q.enqueue()
		q.done() // the turn is first's
		if q.wait(canceled, first, nil, nil) {
			q.done()
		}
		if !q.wait(testContext(t), second, nil, nil) {
			t.Fatal("the second never got its turn")
		}
	}
}

// TestRequest: Wait, Err and Len before and after the end.
func TestRequest(t *testing.T) {
	r := newRequest()
	canceled, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if err := r.Wait(canceled); !errors.Is(err, why) {
		t.Errorf("%v, want the cause of the context", err)
	}
	if r.Err() != nil || r.Len() != 0 {
		t.Errorf("in flight: %v, %d", r.Err(), r.Len())
	}
	failed := errors.New("failed")
	r.finish(7, failed)
	<-r.Done()
	if r.Err() != failed || r.Len() != 7 || r.Wait(canceled) != failed {
		t.Errorf("at the end: %v, %d, %v", r.Err(), r.Len(), r.Wait(canceled))
	}
	q := FailedRequest(failed)
	if <-q.Done(); q.Wait(canceled) != failed || q.Err() != failed || q.Len() != 0 {
		t.Errorf("FailedRequest: %v", q.Err())
	}
}

// TestLengths: messages count elements, of each kind, by N and by Len; a message may be shorter than its memory.
func TestLengths(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	for _, k := range []Kind{Int8, Int16, Float32, Float64} {
		for _, n := range []int{0, 1, 5, 3000} {
			each(t, 2, func(r int) error {
				if r == 0 {
					m := Memory{Bytes: make([]byte, n*k.Size())}
					return errors.Join(gs[0].Do(ctx, Call{Code: Send, Kind: k, To: 1, SendTag: 9, Send: m}),
						gs[0].Do(ctx, Call{Code: Send, Kind: k, To: 1, SendTag: 9, Send: m}))
				}
				into := Memory{Bytes: make([]byte, (n+2)*k.Size())}
				got := -1
				err := gs[1].Do(ctx, Call{Code: Recv, Kind: k, RecvTag: 9, Recv: into, N: &got})
				if err == nil && got != n {
					t.Errorf("%v: N is %d, want %d", k, got, n)
				}
				q := gs[1].Start(ctx, Call{Code: Recv, Kind: k, RecvTag: 9, Recv: into})
				if err = errors.Join(err, q.Wait(ctx)); err == nil && q.Len() != n {
					t.Errorf("%v: Len is %d, want %d", k, q.Len(), n)
				}
				return err
			})
		}
	}
}
