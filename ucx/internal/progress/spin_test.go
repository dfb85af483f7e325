package progress

import (
	"runtime"
	"testing"
	"time"
)

func TestSpinBudgetLearns(t *testing.T) {
	if runtime.NumCPU() == 1 {
		var b Budget
		b.Init(time.Millisecond, false)
		if b.Next() != 0 {
			t.Error("a single CPU must not spin")
		}
		return
	}
	var b Budget
	b.Init(200*time.Microsecond, false)
	if b.Next() != b.max {
		t.Errorf("starts with %d, want the full budget %d", b.Next(), b.max)
	}
	for range 15 {
		b.Lost()
	}
	if b.Next() != minSpin {
		t.Errorf("after 15 losses %d ns, want %d", b.Next(), minSpin)
	}
	b.Lost()
	if b.Next() != b.max {
		t.Error("the sixteenth loss must be followed by a long look")
	}
	b.Won(30_000)
	if got := b.Next(); got < 4*30_000 || got > b.max {
		t.Errorf("after a win of 30 µs the budget is %d ns", got)
	}
	for range 40 {
		b.Won(1000)
	}
	if got := b.Next(); got < spinSlack || got > 2*spinSlack {
		t.Errorf("after wins of 1 µs the budget is %d ns", got)
	}
}

func TestSpinBudgetPolling(t *testing.T) {
	var b Budget
	b.Init(time.Microsecond, true)
	b.Lost()
	b.Won(5)
	if b.Next() != PollSlice {
		t.Errorf("polling slice %d, want %d", b.Next(), PollSlice)
	}
}
