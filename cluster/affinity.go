package cluster

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/topology"
)

// setAffinity binds this process to processors of a list such as 0-15,32-47. Threads inherit
// the set of the one that starts them, and Go has started some already: each is told, until no
// new one is found.
func setAffinity(list string) error {
	cpus, err := topology.ParseCPUList(list)
	if err != nil {
		return fmt.Errorf("cluster: processors %q: %w", list, err)
	}
	var set unix.CPUSet
	for _, c := range cpus.List() {
		set.Set(c)
	}
	if set.Count() == 0 {
		return fmt.Errorf("cluster: processors %q: the list is empty", list)
	}
	done := map[string]bool{}
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("cluster: threads of this process: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[t.Name()] {
				continue
			}
			done[t.Name()], again = true, true
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cluster: run on processors %s: %w", list, err)
			}
		}
	}
	return nil
}
