package commpeer

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/bench/benchpeer"
)

// Starter returns the command of one process of a pair.
type Starter = benchpeer.Starter

// Process is a process of a pair.
type Process struct{ *benchpeer.Lines }

// Start starts a process with further environment variables.
func Start(ctx context.Context, start Starter, env []string) (*Process, error) {
	p, err := benchpeer.StartLines(ctx, start, env)
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// Do sends a command and waits for the reply.
func (p *Process) Do(ctx context.Context, c Command) (Answer, error) {
	var a Answer
	if err := p.Ask(ctx, c, &a); err != nil {
		return Answer{}, fmt.Errorf("%s: %w", c.Do, err)
	}
	return a, nil
}
