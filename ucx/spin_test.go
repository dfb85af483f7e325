package ucx

import (
	"runtime"
	"testing"
	"time"
)

func TestSpinBudgetLearns(t *testing.T) {
	if runtime.NumCPU() == 1 {
		var b spinBudget
		b.init(time.Millisecond, false)
		if b.next() != 0 {
			t.Error("a single CPU must not spin")
		}
		return
	}
	var b spinBudget
	b.init(200*time.Microsecond, false)
	if b.next() != b.max {
		t.Errorf("starts with %d, want the full budget %d", b.next(), b.max)
	}
	for range 15 {
		b.lost()
	}
	if b.next() != minSpin {
		t.Errorf("after 15 losses %d ns, want %d", b.next(), minSpin)
	}
	b.lost()
	if b.next() != b.max {
		t.Error("the sixteenth loss must be followed by a long look")
	}
	b.won(30_000)
	if got := b.next(); got < 4*30_000 || got > b.max {
		t.Errorf("after a win of 30 µs the budget is %d ns", got)
	}
	for range 40 {
		b.won(1000)
	}
	if got := b.next(); got < spinSlack || got > 20_000 {
		t.Errorf("after wins of 1 µs the budget is %d ns", got)
	}
}

func TestSpinBudgetPolling(t *testing.T) {
	var b spinBudget
	b.init(time.Microsecond, true)
	b.lost()
	b.won(5)
	if b.next() != pollSlice {
		t.Errorf("polling slice %d, want %d", b.next(), pollSlice)
	}
}
