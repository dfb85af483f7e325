package lloyd

import "math"

// block is the number of rows that are processed at once.
const block = 512

// passGo is Pass in Go.
func passGo[T Float](columns [][]T, centers, shift []T, labels []int32, sums []float64, counts []int64) int {
	d := len(columns)
	k := len(centers) / d
	moved := make([]T, len(centers)) // centers minus shift
	half := make([]T, k)             // half their squared norms
	for c := range k {
		var norm float64
		for j := range d {
			e := centers[c*d+j] - shift[j]
			moved[c*d+j] = e
			norm += float64(e) * float64(e)
		}
		half[c] = T(norm / 2)
	}
	var best, score [block]T
	var now [block]int32
	x := make([]T, block*d)
	changed := 0
	for from := 0; from < len(labels); from += block {
		n := min(block, len(labels)-from)
		for j, col := range columns {
			s, v := shift[j], col[from:from+n]
			out := x[j*block : j*block+n]
			for i := range out {
				out[i] = v[i] - s
			}
		}
		for c := range k {
			for i := range n {
				score[i] = half[c]
			}
			for j := range d {
				m, v := moved[c*d+j], x[j*block:j*block+n]
				for i, e := range v {
					score[i] -= e * m
				}
			}
			for i := range n {
				if c == 0 || score[i] < best[i] {
					best[i], now[i] = score[i], int32(c)
				}
			}
		}
		changed += follow(x, d, now[:n], labels[from:from+n], sums, counts)
	}
	return changed
}

// follow sets labels to now, and moves rows between sums.
func follow[T Float](x []T, d int, now, labels []int32, sums []float64, counts []int64) int {
	changed := 0
	for i, c := range now {
		old := labels[i]
		if old == c {
			continue
		}
		labels[i] = c
		changed++
		if sums == nil {
			continue
		}
		counts[c]++
		if old >= 0 {
			counts[old]--
		}
		for j := range d {
			e := float64(x[j*block+i])
			sums[int(c)*d+j] += e
			if old >= 0 {
				sums[int(old)*d+j] -= e
			}
		}
	}
	return changed
}

func inertiaGo[T Float](columns [][]T, turned []T, k int, labels []int32) float64 {
	var sum float64
	var dist [block]float64
	for from := 0; from < len(labels); from += block {
		n := min(block, len(labels)-from)
		clear(dist[:n])
		for j, col := range columns {
			c, v := turned[j*k:(j+1)*k], col[from:from+n]
			for i, l := range labels[from : from+n] {
				e := float64(v[i]) - float64(c[l])
				dist[i] += e * e
			}
		}
		for _, e := range dist[:n] {
			sum += e
		}
	}
	return sum
}

func distancesGo[T Float](columns [][]T, point []T, out []float64) {
	clear(out)
	for j, col := range columns {
		c := float64(point[j])
		for i, v := range col {
			e := float64(v) - c
			out[i] += e * e
		}
	}
}

// Finite returns the index of the first column with a value that is not finite, -1 if there is none.
func Finite[T Float](columns [][]T) int {
	for j, col := range columns {
		for _, v := range col {
			if e := float64(v); math.IsNaN(e) || math.IsInf(e, 0) {
				return j
			}
		}
	}
	return -1
}
