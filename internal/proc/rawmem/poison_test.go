//go:build race || invariants

package rawmem

import "testing"

// A write to a block in the pool is found when it is used again.
func TestPoison(t *testing.T) {
	p := &pool{limit: 64 << 20}
	b := make([]byte, 2<<20)
	p.put(b)
	if got, _ := p.take(len(b)); len(got) != len(b) || got[1] != canary {
		t.Fatalf("got %d bytes, want the block, poisoned", len(got))
	}
	p.put(b)
	b[5] = 1
	defer func() {
		if recover() == nil {
			t.Error("a written block was returned")
		}
	}()
	p.take(len(b))
}
