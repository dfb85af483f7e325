package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rendererMemory returns the resident memory, in bytes, of the largest renderer among the descendants of a process, and
// the part of it that is not mapped from files, which all renderers share.
func rendererMemory(browser int) (resident, own int64, err error) {
	parents := map[int]int{}
	var renderers []int
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		status, err := os.ReadFile(filepath.Join(name, "status"))
		if err != nil {
			continue // has ended
		}
		parents[pid] = int(field(status, "PPid:"))
		if line, _ := os.ReadFile(filepath.Join(name, "cmdline")); strings.Contains(string(line), "--type=renderer") {
			renderers = append(renderers, pid)
		}
	}
	for _, pid := range renderers {
		above := pid
		for above > 1 && above != browser {
			above = parents[above]
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || above != browser {
			continue
		}
		if rss := field(status, "VmRSS:") << 10; rss > resident {
			resident, own = rss, rss-field(status, "RssFile:")<<10
		}
	}
	if resident == 0 {
		return 0, 0, errors.New("the browser has no renderer")
	}
	return resident, own, nil
}

// field returns a number of a status file, 0 if it has none of the name.
func field(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n
		}
	}
	return 0
}
