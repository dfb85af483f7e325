package mem

import (
	"context"
	"errors"
	"sync"
)

// Counters are the counters of a Statistics. Bytes are requested sizes, without rounding.
type Counters struct {
	Bytes, PeakBytes, TotalBytes int64 // current, peak, total
	Count, PeakCount, TotalCount int64 // the same for allocations
}

func (c *Counters) add(n int64) {
	c.Bytes += n
	c.Count++
	c.TotalBytes += n
	c.TotalCount++
	c.PeakBytes, c.PeakCount = max(c.PeakBytes, c.Bytes), max(c.PeakCount, c.Count)
}

func (c *Counters) drop(n int64) {
	c.Bytes -= n
	c.Count--
}

// Statistics is a Resource that counts its allocations (RMM's StatisticsResourceAdaptor).
type Statistics struct {
	adaptor

	mu    sync.Mutex
	stack []Counters // the first counts since the creation, each later one since its Push
}

// NewStatistics returns a Resource that counts the allocations of upstream.
func NewStatistics(upstream Resource) (*Statistics, error) {
	if upstream == nil {
		return nil, errors.New("mem: NewStatistics: no upstream resource")
	}
	return &Statistics{adaptor: adaptor{upstream}, stack: make([]Counters, 1)}, nil
}

// Alloc returns a buffer of n bytes of the upstream resource.
func (s *Statistics) Alloc(ctx context.Context, n int) (*Buffer, error) {
	return s.AllocOn(ctx, n, nil)
}

// AllocOn is Alloc in stream order, see StreamResource.
func (s *Statistics) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	b, err := AllocOn(ctx, s.upstream, n, st)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	for i := range s.stack {
		s.stack[i].add(int64(n))
	}
	s.mu.Unlock()
	b.OnFree(func() {
		s.mu.Lock()
		for i := range s.stack {
			s.stack[i].drop(int64(n))
		}
		s.mu.Unlock()
	})
	return b, nil
}

// Counters returns the counters since the last Push, or since the creation.
func (s *Statistics) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stack[len(s.stack)-1]
}

// Push starts a nested set of counters, for a part of a program, and returns the current ones. Memory allocated before
// and released within the part makes its Bytes and Count negative.
func (s *Statistics) Push() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.stack[len(s.stack)-1]
	s.stack = append(s.stack, Counters{})
	return c
}

// Pop ends the counters of the last Push and returns them. Without a Push it returns the total and changes nothing.
func (s *Statistics) Pop() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.stack) - 1
	c := s.stack[last]
	if last > 0 {
		s.stack = s.stack[:last]
	}
	return c
}
