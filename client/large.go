package client

import "go.millstream.dev/internal/task"

// defaultArgumentWarning is Config.ArgumentWarning where it is not set.
const defaultArgumentWarning = 64 << 20

// checkSize warns, once for each function, of a call whose arguments are so large that the graph is the wrong way for
// them: the scheduler keeps and forwards every byte, once for each task, while Scatter sends them to workers directly.
func (c *Client) checkSize(function string, n int) {
	limit := c.cfg.ArgumentWarning
	if limit < 0 || int64(n) < limit {
		return
	}
	c.mu.Lock()
	known := c.large[function]
	if !known {
		if c.large == nil {
			c.large = map[string]bool{}
		}
		c.large[function] = true
	}
	c.mu.Unlock()
	if !known {
		c.log.Warn("large arguments travel through the scheduler with each task; send them with client.Scatter and "+
			"pass the future",
			"function", function, "bytes", n, "limit", limit)
	}
}

// checkNode is checkSize for a node of a graph, which has no other name than its key.
func (c *Client) checkNode(key task.Key, n int) {
	if limit := c.cfg.ArgumentWarning; limit >= 0 && int64(n) >= limit {
		c.checkSize(key.String(), n)
	}
}
