package block

import "testing"

func TestGet(t *testing.T) {
	for _, n := range []int{0, 1, least - 1, least, 3 * least, most, most + 1} {
		b := Get(n)
		if len(b) != n {
			t.Errorf("Get(%d): got %d bytes, want %d", n, len(b), n)
		}
		Put(b)
	}
}

// A block that is too short for the next message is not returned.
func TestShortBlock(t *testing.T) {
	Put(make([]byte, least))
	if n := len(Get(4 * least)); n != 4*least {
		t.Errorf("got %d bytes, want %d", n, 4*least)
	}
}
