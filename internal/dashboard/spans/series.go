package spans

import (
	"sort"
	"time"
)

// Point is a sample of a series: a time in µs since the origin and the mean of the samples around it.
type Point struct {
	T int64
	V float64
}

// Bounds of series. Each is kept in steps of a second, and of 8, 64, … seconds: the finest steps for about an
// hour, the coarsest for three weeks.
const (
	maxSeries    = 256
	seriesSteps  = 4
	seriesLength = 4096
	seriesStep   = 1_000_000 // µs, of the finest
)

// seriesSet is the series of a history.
type seriesSet struct {
	byName map[string]*series
}

// series has the points of each step, in order of time.
type series struct {
	steps [seriesSteps][]cell
}

// cell adds up the samples of one step.
type cell struct {
	T     int64 // number of the step since the origin
	Sum   float64
	Count int64
}

func (s *seriesSet) init() { s.byName = make(map[string]*series) }

// Sample adds a value to a time series. Values are kept with less detail as they age. The number of series is bounded;
// values of further ones are counted as dropped.
func (s *Store) Sample(t time.Time, name string, v float64) {
	us := t.UnixMicro() - s.origin
	limit := s.cfg.Now().Add(futureMargin).UnixMicro() - s.origin
	s.mu.Lock()
	defer s.mu.Unlock()
	if us < 0 || us >= min(limit, maxTime) || v != v || !s.series.add(clip(name), us, v) {
		s.dropped.Add(1)
		return
	}
	s.changed = true
}

func (s *seriesSet) add(name string, us int64, v float64) bool {
	one, ok := s.byName[name]
	if !ok {
		if len(s.byName) >= maxSeries {
			return false
		}
		one = new(series)
		s.byName[name] = one
	}
	width := int64(seriesStep)
	for i := range one.steps {
		one.steps[i] = addCell(one.steps[i], us/width, v)
		width *= 8
	}
	return true
}

// addCell adds a value to the cells of a step and drops the oldest when there are too many.
func addCell(cells []cell, t int64, v float64) []cell {
	i := len(cells)
	for i > 0 && cells[i-1].T > t {
		i--
	}
	if i > 0 && cells[i-1].T == t {
		cells[i-1].Sum += v
		cells[i-1].Count++
		return cells
	}
	if len(cells) >= 2*seriesLength {
		n := copy(cells, cells[len(cells)-seriesLength:])
		i -= len(cells) - n
		cells = cells[:n]
		if i < 0 {
			return cells
		}
	}
	cells = append(cells, cell{})
	copy(cells[i+1:], cells[i:])
	cells[i] = cell{t, v, 1}
	return cells
}

// Series returns about the given number of points of each series, in the finest steps that reach back to from.
func (s *Store) Series(from, to int64, points int) map[string][]Point {
	points = min(max(points, 1), seriesLength)
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string][]Point, len(s.series.byName))
	for name, one := range s.series.byName {
		if list := one.points(from, to, points); len(list) > 0 {
			all[name] = list
		}
	}
	return all
}

func (s *series) points(from, to int64, points int) []Point {
	if from >= to {
		return nil
	}
	cells, width := s.steps[0], int64(seriesStep)
	for i := 1; i < seriesSteps && len(cells) > 0 && len(s.steps[i]) > 0; i++ {
		// A coarser step is taken if the finer one does not reach back far enough.
		if finer := cells[0].T * width; finer <= from || s.steps[i][0].T*width*8+width*8 > finer {
			break
		}
		cells, width = s.steps[i], width*8
	}
	merge := max(1, (to-from)/int64(points)/width) // cells of one point
	i := sort.Search(len(cells), func(i int) bool { return (cells[i].T+1)*width > from })
	var list []Point
	for i < len(cells) && cells[i].T*width < to {
		group := cells[i].T / merge
		var sum cell
		for ; i < len(cells) && cells[i].T/merge == group && cells[i].T*width < to; i++ {
			sum.Sum += cells[i].Sum
			sum.Count += cells[i].Count
			sum.T += cells[i].T*cells[i].Count*2 + cells[i].Count
		}
		list = append(list, Point{T: int64(float64(sum.T) / float64(sum.Count) / 2 * float64(width)),
			V: sum.Sum / float64(sum.Count)})
	}
	return list
}
