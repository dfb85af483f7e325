package profile

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// historyNodes bounds the nodes of a History, 24 bytes each; the oldest cycles are dropped first.
	historyNodes = 100_000
	// maxPrefixes bounds the prefixes of keys in one cycle. Further ones are counted as others.
	maxPrefixes = 1000
	others      = "Other" // Dask's name for keys without a prefix
)

// History keeps the trees of the last cycles, by the prefix of the keys of tasks. Any goroutine may use it.
type History struct {
	cycle  time.Duration
	length int

	mu     sync.Mutex
	past   []period // oldest first
	recent period
	nodes  int // in past
}

// period are the samples of one cycle.
type period struct {
	begin, end time.Time
	trees      map[string]*Tree
}

// NewHistory returns a History of length cycles (default 1000 cycles of a second, as in Dask).
func NewHistory(cycle time.Duration, length int) *History {
	if length <= 0 {
		length = 1000
	}
	return &History{cycle: cmp.Or(cycle, time.Second), length: length}
}

// Add counts a stack of a task with a prefix n times.
func (h *History) Add(now time.Time, prefix string, stack []*Frame, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	if h.recent.trees == nil {
		h.recent = period{begin: now, trees: map[string]*Tree{}}
	}
	t := h.recent.trees[prefix]
	if t == nil {
		if len(h.recent.trees) >= maxPrefixes {
			prefix = others
		}
		if t = h.recent.trees[prefix]; t == nil {
			t = &Tree{}
			h.recent.trees[strings.Clone(prefix)] = t
		}
	}
	t.Add(stack, n)
}

// turn ends the recent cycle when its time is over. The caller holds mu.
func (h *History) turn(now time.Time) {
	p := h.recent
	if p.trees == nil || now.Sub(p.begin) < h.cycle && !now.Before(p.begin) {
		return
	}
	p.end = p.begin.Add(h.cycle)
	for _, t := range p.trees {
		t.seal()
		h.nodes += len(t.nodes)
	}
	h.past, h.recent = append(h.past, p), period{}
	drop := max(0, len(h.past)-h.length)
	for i, old := range h.past {
		if i >= drop && h.nodes <= historyNodes {
			break
		}
		for _, t := range old.trees {
			h.nodes -= len(t.nodes)
		}
		drop = max(drop, i+1)
	}
	h.past = slices.Delete(h.past, 0, drop)
}

// Query selects samples. Times are seconds since 1970, as in Dask.
type Query struct {
	Start, Stop *float64
	// Key, if not nil, is the prefix of the keys of tasks.
	Key *string
}

// includes reports whether a cycle is selected: times are those of the end of a cycle, as in Dask, so that a cycle
// belongs to a range if it ends within it or contains its end.
func (q Query) includes(p period, now time.Time) bool {
	end := p.end
	if end.IsZero() {
		end = now
	}
	return (q.Start == nil || seconds(end) >= *q.Start) && (q.Stop == nil || seconds(p.begin) <= *q.Stop)
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// AddTo adds the selected samples to a tree.
func (h *History) AddTo(t *Tree, q Query) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	for _, p := range h.periods() {
		if !q.includes(p, now) {
			continue
		}
		for prefix, tree := range p.trees {
			if q.Key == nil || *q.Key == prefix {
				t.Merge(tree)
			}
		}
	}
}

// periods returns all cycles. The caller holds mu.
func (h *History) periods() []period {
	if h.recent.trees == nil {
		return h.past
	}
	return append(slices.Clip(h.past), h.recent)
}

// Counts are the numbers of samples of one cycle.
type Counts struct {
	// Time is the end of the cycle, in seconds since 1970.
	Time  float64
	Count int64
	// Keys are the numbers by prefix.
	Keys map[string]int64
}

// Counts returns the numbers of samples by cycle within a range of time, oldest first. A nil stop includes the cycle
// that has not ended.
func (h *History) Counts(start float64, stop *float64) []Counts {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	limit := math.Inf(1)
	if stop != nil {
		limit = *stop
	}
	out := []Counts{}
	for _, p := range h.periods() {
		c := Counts{Time: seconds(now), Keys: make(map[string]int64, len(p.trees))}
		if !p.end.IsZero() {
			c.Time = seconds(p.end)
		} else if stop != nil {
			continue
		}
		if !(start < c.Time && c.Time < limit) {
			continue
		}
		for _, prefix := range slices.Sorted(maps.Keys(p.trees)) {
			n := p.trees[prefix].Count()
			c.Keys[prefix] = n
			c.Count += n
		}
		out = append(out, c)
	}
	return out
}
