package client

import (
	"net/url"
	"slices"
	"strings"

	"go.millstream.dev/internal/task"
)

// checkWorkers looks, once for each name, whether there are workers by the names that tasks
// are restricted to. A task that no worker may run waits until one joins, as in Dask; without
// a word a misspelled name would be hard to find.
func (c *Client) checkWorkers(a *task.Annotations) {
	if len(a.Workers) == 0 || a.AllowOtherWorkers {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, w := range a.Workers {
		if !c.checked[w] {
			c.checked[w] = true
			names = append(names, w)
		}
	}
	if len(names) == 0 || c.closed != nil {
		return
	}
	c.checks.Add(1)
	go func() {
		defer c.checks.Done()
		workers, err := c.Workers(c.ctx)
		if err != nil {
			return // the tasks will tell
		}
		for _, name := range names {
			if !isWorker(workers, name) {
				c.log.Warn("tasks are restricted to a worker that is not there: they wait until it joins (Workers; "+
					"AllowOtherWorkers lets others run them)", "worker", name)
			}
		}
	}()
}

// isWorker tells whether a name is the address, name or host of a worker.
func isWorker(workers map[string]Worker, name string) bool {
	if _, ok := workers[name]; ok {
		return true
	}
	for address, w := range workers {
		host := w.Host
		if u, err := url.Parse(address); err == nil && host == "" {
			host = u.Hostname()
		}
		if slices.Contains([]string{w.Name, host, strings.TrimPrefix(address, "tcp://")}, name) {
			return true
		}
	}
	return false
}
