package topology

import "golang.org/x/sys/unix"

// allowed returns the processors that this process may use, after its cpuset, the limits of a container and taskset.
func allowed() (CPUSet, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return CPUSet{}, err
	}
	var s CPUSet
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			s.add(c)
		}
	}
	return s, nil
}
