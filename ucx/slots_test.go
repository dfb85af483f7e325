package ucx

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.millstream.dev/ucx/internal/ucp"
)

// TestSlotTable takes and returns slots one by one and several at a time, from many goroutines: no slot has two owners,
// and none is lost.
func TestSlotTable(t *testing.T) {
	const chunks, goroutines, rounds = 3, 4, 2000
	var table slotTable
	for n := range uint32(chunks) {
		c := &chunk{slots: make([]ucp.Slot, chunkSlots)}
		table.chunks[n].Store(c)
		for k := range uint32(chunkSlots) {
			c.slots[k].Index = n*chunkSlots + k
			table.push(c.slots[k].Index)
		}
	}
	var owned [chunks * chunkSlots]atomic.Bool
	take := func(i uint32) {
		if owned[i].Swap(true) {
			t.Errorf("slot %d has two owners", i)
		}
	}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			var list []*ucp.Slot
			for range rounds {
				if i, ok := table.pop(); ok {
					take(i)
					owned[i].Store(false)
					table.push(i)
				}
				n := rand.IntN(chunkSlots)
				list = table.popSlots(list[:0], n)
				if len(list) > n {
					t.Errorf("%d slots, want at most %d", len(list), n)
				}
				var back slotChain
				for _, s := range list {
					take(s.Index)
				}
				for _, s := range list {
					owned[s.Index].Store(false)
					back.add(&table, s.Index)
				}
				table.pushChain(back)
			}
		})
	}
	all.Wait()
	if got := len(table.popSlots(nil, len(owned)+1)); got != len(owned) {
		t.Errorf("%d slots are left, want %d", got, len(owned))
	}
}
