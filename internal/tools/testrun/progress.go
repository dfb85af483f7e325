package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// lockedWriter keeps lines of the heartbeat, the go command and the results whole.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// heartbeat prints the running tests periodically: a long silence looks like a hang, and after a hang the last line
// names the test. stop stops it and waits for it.
func (r *results) heartbeat(out io.Writer, every time.Duration) (stop func()) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	begin := time.Now()
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				fmt.Fprintf(out, "…     %s: %s\n", time.Since(begin).Round(time.Second), r.nowRunning())
			}
		}
	})
	return func() {
		close(quit)
		done.Wait()
	}
}

// nowRunning returns the names of the running tests, without parents of running subtests.
func (r *results) nowRunning() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	keys := r.runningIn("")
	for i, key := range keys {
		if i+1 < len(keys) && keys[i+1][0] == key[0] && strings.HasPrefix(keys[i+1][1], key[1]+"/") {
			continue
		}
		names = append(names, key[0][strings.LastIndex(key[0], "/")+1:]+"."+key[1])
	}
	switch {
	case len(names) == 0:
		return "compiling"
	case len(names) > 4:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:4], ", "), len(names)-4)
	}
	return strings.Join(names, ", ")
}
