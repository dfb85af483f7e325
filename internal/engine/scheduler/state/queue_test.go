package state

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue must behave like a sorted slice.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []*Task
		var last int64
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) { // mostly ascending
				order := last + 1
				if rapid.IntRange(0, 3).Draw(t, "out of order") == 0 {
					order = rapid.Int64Range(0, 100).Draw(t, "order")
				} else {
					last = order
				}
				x := &Task{place: -1, prio: Priority{Order: order}}
				q.push(x)
				model = append(model, x)
			},
			"pop": func(t *rapid.T) {
				x := q.peek()
				if (x == nil) != (len(model) == 0) {
					t.Fatalf("peek: got %v of %d", x, len(model))
				}
				if x != nil {
					q.remove(x)
					model = slices.DeleteFunc(model, func(m *Task) bool { return m == x })
				}
			},
			"remove": func(t *rapid.T) {
				if len(model) > 0 {
					x := rapid.SampledFrom(model).Draw(t, "victim")
					q.remove(x)
					model = slices.DeleteFunc(model, func(m *Task) bool { return m == x })
				}
			},
			"": func(t *rapid.T) {
				if q.n != len(model) {
					t.Fatalf("tasks: got %d, want %d", q.n, len(model))
				}
				n := 0
				q.each(func(x *Task) {
					n++
					if !slices.Contains(model, x) || x.place == -1 {
						t.Fatal("each: got an unknown task")
					}
				})
				if n != len(model) {
					t.Fatalf("each: got %d of %d", n, len(model))
				}
				if x := q.peek(); x != nil {
					for _, m := range model {
						if m.prio.Compare(x.prio) < 0 {
							t.Fatalf("%v: before the first, %v", m.prio, x.prio)
						}
					}
				}
			},
		})
	})
}

// A row that is consumed at the front is moved, not grown.
func TestQueueShift(t *testing.T) {
	var q queue
	for i := range 1000 {
		q.push(&Task{place: -1, prio: Priority{Order: int64(i)}})
	}
	for i := range 100_000 {
		x := q.peek()
		if x.prio.Order != int64(i) {
			t.Fatalf("got %d, want %d", x.prio.Order, i)
		}
		q.remove(x)
		q.push(&Task{place: -1, prio: Priority{Order: int64(i + 1000)}})
	}
	if cap(q.row) > 8192 {
		t.Errorf("capacity of a queue of 1000: got %d", cap(q.row))
	}
}

func TestPriorityCompare(t *testing.T) {
	ordered := []Priority{{-5, 3, 9}, {0, -0.01, 7}, {0, 1, 2}, {0, 1, 3}, {0, 2, 0}, {1, 0, 0}}
	for i, p := range ordered {
		for j, q := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := p.Compare(q); got != want {
				t.Errorf("Compare(%v, %v): got %d, want %d", p, q, got, want)
			}
		}
	}
}
