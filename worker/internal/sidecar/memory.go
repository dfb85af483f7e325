package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// RSS returns the resident memory of the sidecar in bytes; 0 if it is not running.
func (s *Sidecar) RSS() int64 {
	inc := s.running()
	if inc == nil {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(inc.p.PID()) + "/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// errSidecarMemory is the reason for killing a sidecar that uses too much memory.
var errSidecarMemory = errors.New("killed: worker exceeded its memory limit " +
	"(distributed.worker.memory.terminate)")

// KillForMemory kills the sidecar if it uses the larger part of the worker's memory: its end frees more than that of
// the Go process, and loses less.
func (s *Sidecar) KillForMemory(used int64) bool {
	inc := s.running()
	part := s.RSS()
	if inc == nil || 2*part < used {
		return false
	}
	s.log.Error("killing Python process: worker exceeded its memory limit", "python", part, "used", used,
		"limit", s.cfg.MemoryLimit)
	inc.p.Kill(fmt.Errorf("%w: %d of %d bytes", errSidecarMemory, used, s.cfg.MemoryLimit))
	return true
}

// trimPause is the minimum interval between calls that make Python return memory, because they take time.
const trimPause = time.Second

// Trim makes Python return free memory to the system, at most once per trimPause.
func (s *Sidecar) Trim(ctx context.Context) {
	s.mu.Lock()
	inc := s.current
	if inc == nil || time.Since(s.lastTrim) < trimPause {
		s.mu.Unlock()
		return
	}
	s.lastTrim = time.Now()
	s.mu.Unlock()
	inc.flush()
	ctx, cancel := context.WithTimeout(ctx, trimPause)
	defer cancel()
	_, _ = inc.p.Call(ctx, "trim", nil, nil) // best effort
}
