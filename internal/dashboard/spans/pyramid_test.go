package spans

import (
	"slices"
	"testing"
)

// TestCompactBucket checks which categories of a bucket are kept; the unit is a time of one share.
func TestCompactBucket(t *testing.T) {
	at := func(category, share int) coldEntry { return coldEntry(7<<24 | category<<16 | share) }
	for _, test := range []struct {
		name  string
		hot   []entry // of category i+8, but a last one with 0
		whole bool
		want  []coldEntry
	}{
		{"few", []entry{{time: 5}, {time: 6}, {time: 7}, {time: 8}, {time: 9}}, false,
			[]coldEntry{at(8, 5), at(9, 6), at(10, 7), at(11, 8), at(12, 9)}},
		{"smallest", []entry{{time: 5}, {time: 1}, {time: 7}, {time: 2}, {time: 9}, {time: 10}}, false,
			[]coldEntry{at(0, 3), at(8, 5), at(10, 7), at(12, 9), at(13, 10)}},
		{"equal", []entry{{time: 5}, {time: 5}, {time: 5}, {time: 5}, {time: 5}, {time: 10}}, false,
			[]coldEntry{at(0, 10), at(8, 5), at(9, 5), at(10, 5), at(13, 10)}},
		{"all equal", []entry{{time: 5}, {time: 5}, {time: 5}, {time: 5}, {time: 5}, {time: 5}}, false,
			[]coldEntry{at(0, 10), at(8, 5), at(9, 5), at(10, 5), at(11, 5)}},
		{"whole", []entry{{time: 1}, {time: 2}, {time: 3}, {time: 4}, {time: 5}, {time: 6}}, true,
			[]coldEntry{at(8, 1), at(9, 2), at(10, 3), at(11, 4), at(12, 5), at(13, 6)}},
		{"least", []entry{{time: 0.01}}, false, []coldEntry{at(8, 1)}},
		{"more than a bucket", []entry{{time: 1e6}}, false, []coldEntry{at(8, 65535)}},
	} {
		for i := range test.hot {
			test.hot[i].at = 7<<8 | uint16(8+i)
		}
		if got := appendBucket(nil, test.hot, 1, test.whole); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %x, want %x", test.name, got, test.want)
		}
	}
}

func TestLine(t *testing.T) {
	p := new(pyramid)
	p.grow()
	l := p.levels[0]
	add := func(cells ...cellTime) { p.merge(l, 3, coalesce(cells)) }
	add(cellTime{5<<8 | 9, 100}, cellTime{4<<8 | 8, 50}, cellTime{5<<8 | 8, 10}, cellTime{5<<8 | 9, 1})
	add(cellTime{4<<8 | 8, 1}, cellTime{4<<8 | 9, 2}, cellTime{300<<8 | 8, 7})
	var got []entry
	l.chunks[0].pages[0][3].each(l.shift, func(at uint16, time float32) { got = append(got, entry{at, time}) })
	want := []entry{{4<<8 | 8, 51}, {4<<8 | 9, 2}, {5<<8 | 8, 10}, {5<<8 | 9, 101}}
	if !slices.Equal(got, want) {
		t.Errorf("line: got %v, want %v", got, want)
	}
	if got := l.chunks[1].pages[0][3].hot; len(got) != 1 || got[0] != (entry{44<<8 | 8, 7}) {
		t.Errorf("second chunk: got %v", got)
	}
	p.freezeChunk(l.chunks[0], l.shift)
	ln := &l.chunks[0].pages[0][3]
	if len(ln.hot) != 0 || len(ln.cold) != 4 || ln.late {
		t.Errorf("compact line: got %+v", ln)
	}
	add(cellTime{9<<8 | 8, 3}) // after what is compact
	if len(ln.hot) != 1 || len(ln.cold) != 4 || ln.late {
		t.Errorf("line with a later bucket: got %+v", ln)
	}
	add(cellTime{2<<8 | 8, 3}) // before
	if len(ln.hot) != 6 || len(ln.cold) != 0 || !ln.late {
		t.Errorf("line with an earlier bucket: got %+v", ln)
	}
	for index := range l.chunks {
		p.remove(l, index)
	}
	if p.size != 0 {
		t.Errorf("size of an empty pyramid: got %d, want 0", p.size)
	}
}

func TestClassOf(t *testing.T) {
	for length, want := range map[int64]int{1: 0, 1<<15 - 1: 0, 1 << 15: 1, 1<<17 - 1: 1, 1 << 17: 2, 1 << 47: 17,
		maxTime - 1: 17} {
		if got := classOf(length); got != want {
			t.Errorf("class of %d: got %d, want %d", length, got, want)
		}
	}
}
