package client

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// LogLine is a line of a worker's log.
type LogLine struct {
	// Level is DEBUG, INFO, WARNING, ERROR or CRITICAL, as Dask names them.
	Level string
	// Text is the line. Output of tasks begins with "stdout: " or "stderr: ", records that tasks write with
	// package slog with "task - ".
	Text string
}

// LogsOptions select the lines that Logs returns.
type LogsOptions struct {
	// N is how many of the last lines of each worker are returned (default: all, at most 10,000).
	N int
	// Workers are the addresses of workers (default: all).
	Workers []string
	// Nannies selects the logs of the nannies of the workers instead.
	Nannies bool
}

// Logs returns the logs of workers by address, oldest line first: what the workers logged, and what tasks
// logged and printed. A process that has taken the place of one that died has the last lines of that one
// too. (Dask: Client.get_worker_logs)
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
		if !o.Nannies { // workers answer with the newest first
			slices.Reverse(lines)
		}
		out[address] = lines
	}
	return out, nil
}
