package client

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// LogLine is a line in the log of a worker.
type LogLine struct {
	// Level is DEBUG, INFO, WARNING, ERROR or CRITICAL, as in Dask.
	Level string
	// Text is the line. Output of tasks begins with "stdout: " or "stderr: ", and records that tasks write with package
	// slog begin with "task - ".
	Text string
}

// LogsOptions selects the lines that Logs returns.
type LogsOptions struct {
	// N is the maximum number of lines of each worker, of which the last ones are returned (default: all, at most
	// 10,000).
	N int
	// Workers are the addresses of workers (default: all).
	Workers []string
	// Nannies selects the logs of the nannies instead of the workers.
	Nannies bool
}

// Logs returns the logs of workers by address, oldest line first: log messages of the workers, and log messages and
// output of tasks. A restarted worker process also has the last lines of the process before it. (Dask:
// Client.get_worker_logs)
func (c *Client) Logs(ctx context.Context, o LogsOptions) (map[string][]LogLine, error) {
	args := wire.NewDict("nanny", o.Nannies)
	if o.N > 0 {
		args.Set("n", o.N)
	}
	if len(o.Workers) > 0 {
		args.Set("workers", o.Workers)
	}
	var reply msgpack.Map
	if err := c.call(ctx, "worker_logs", args, &reply); err != nil {
		return nil, fmt.Errorf("client: logs of workers: %w", err)
	}
	out := make(map[string][]LogLine, len(reply))
	for _, p := range reply {
		address, _ := p.Key.(string)
		list, _ := p.Value.([]any)
		lines := make([]LogLine, 0, len(list))
		for _, x := range list {
			if pair, ok := x.([]any); ok && len(pair) == 2 {
				level, _ := pair[0].(string)
				text, _ := pair[1].(string)
				lines = append(lines, LogLine{level, text})
			}
		}
		if !o.Nannies { // workers reply with the newest line first
			slices.Reverse(lines)
		}
		out[address] = lines
	}
	return out, nil
}
