package commbench

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// ticks is a hundredth of a second in /proc, on every Linux that Go runs on.
const ticks = 100

// cpu is the processor time that a process has used.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * time.Second / ticks, nil
}
