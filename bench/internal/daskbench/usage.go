package daskbench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tick is the unit of times in /proc: USER_HZ of the kernel, 100 on every Linux that Go supports.
const tick = 100

// treeTime returns the processor time of a process, of its children that it has waited for, and of its running
// descendants, in seconds.
func treeTime(pid int) (float64, error) {
	parents, times := map[int]int{}, map[int]float64{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has exited
		}
		id, parent, time, err := readStat(string(text))
		if err != nil {
			return 0, err
		}
		parents[id], times[id] = parent, time
	}
	if _, ok := times[pid]; !ok {
		return 0, fmt.Errorf("process %d has exited", pid)
	}
	total := 0.0
	for id, time := range times {
		for at := id; at > 0; at = parents[at] {
			if at == pid {
				total += time
				break
			}
		}
	}
	return total, nil
}

// readStat parses a line of /proc/PID/stat: the process, its parent, and its time including that of children it has
// waited for.
func readStat(text string) (pid, parent int, seconds float64, err error) {
	// The name is in parentheses and may contain any character.
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	bad := func() (int, int, float64, error) { return 0, 0, 0, fmt.Errorf("invalid line %q in /proc", text) }
	if open < 0 || end < open {
		return bad()
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 15 {
		return bad()
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return bad()
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return bad()
	}
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return bad()
		}
		seconds += float64(n) / tick
	}
	return pid, parent, seconds, nil
}
