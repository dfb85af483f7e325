package lloydfit

import (
	"context"

	"go.millstream.dev/internal/device/kernels/lloyd"
)

// hostSeeds has the squared distances of rows in host memory.
type hostSeeds[T lloyd.Float] struct {
	h       *host[T]
	closest [][]float64   // by partition
	tried   [][][]float64 // by trial: closest with the tried point
}

func (h *host[T]) seeds(_ context.Context, first []float64, trials int) (seeds, error) {
	s := &hostSeeds[T]{h: h, closest: make([][]float64, len(h.parts)), tried: make([][][]float64, trials)}
	at := h.convert(first)
	for i, p := range h.parts {
		s.closest[i] = make([]float64, p.rows())
		lloyd.Distances(p.Columns, at, s.closest[i])
	}
	for t := range s.tried {
		s.tried[t] = make([][]float64, len(h.parts))
		for i, p := range h.parts {
			s.tried[t][i] = make([]float64, p.rows())
		}
	}
	return s, nil
}

func (s *hostSeeds[T]) potentials(_ context.Context, out []float64) error {
	for i, p := range s.h.parts {
		for _, e := range s.closest[i] {
			out[p.Index] += e
		}
	}
	return nil
}

func (s *hostSeeds[T]) find(_ context.Context, partition int, value float64) (int, error) {
	for i, p := range s.h.parts {
		if p.Index == partition {
			return reach(s.closest[i], value), nil
		}
	}
	_, err := s.h.find(partition)
	return 0, err
}

// reach returns the index at which the sum of numbers reaches a value, the last one if it never does.
func reach(v []float64, value float64) int {
	var sum float64
	for i, e := range v {
		if sum += e; sum >= value {
			return i
		}
	}
	return len(v) - 1
}

func (s *hostSeeds[T]) try(_ context.Context, points, left []float64) error {
	d := s.h.d
	for t := range s.tried {
		at := s.h.convert(points[t*d : (t+1)*d])
		for i, p := range s.h.parts {
			now := s.tried[t][i]
			lloyd.Distances(p.Columns, at, now)
			for r, e := range now {
				now[r] = min(e, s.closest[i][r])
				left[t] += now[r]
			}
		}
	}
	return nil
}

func (s *hostSeeds[T]) keep(trial int) {
	s.closest, s.tried[trial] = s.tried[trial], s.closest
}

func (s *hostSeeds[T]) close() {}
