package taskbench

// Values of tasks stay in a range that Go and Python compute equally.
const valueMask = 1<<40 - 1

// The random graph: its first tasks have no dependencies, the others depend on some of the thousand tasks before them.
const (
	dagRoots  = 16
	dagWindow = 1000
)

// splitMix is the random number generator that creates the same graph on both sides.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s *splitMix) below(n int) int { return int(s.next() % uint64(n)) }

// randomGraph returns the dependencies of each of n tasks.
func randomGraph(n int, seed uint64) [][]int {
	rng := splitMix(seed)
	dag := make([][]int, n)
	for i := dagRoots; i < n; i++ {
		deps := make([]int, 0, 4)
		add := func(d int) {
			for _, have := range deps {
				if have == d {
					return
				}
			}
			deps = append(deps, d)
		}
		for range 2 + rng.below(3) {
			add(i - 1 - rng.below(min(i, dagWindow)))
		}
		for len(deps) < 2 {
			add((deps[len(deps)-1] + 1) % i)
		}
		dag[i] = deps
	}
	return dag
}

// sinks returns the tasks that no other task depends on, in order.
func sinks(dag [][]int) []int {
	used := make([]bool, len(dag))
	for _, deps := range dag {
		for _, d := range deps {
			used[d] = true
		}
	}
	var out []int
	for i, u := range used {
		if !u {
			out = append(out, i)
		}
	}
	return out
}

// mixed returns the value of a task of the graph.
func mixed(i int64, deps []int64) int64 {
	v := i
	for _, d := range deps {
		v = (v*31 + d) & valueMask
	}
	return v
}

// fold returns the checksum of values in order.
func fold(values []int64) int64 { return mixed(0, values) }
