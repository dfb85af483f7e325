package execution

import (
	"context"

	"go.millstream.dev/internal/task"
)

// Actor is a result that stays on the worker and is changed by its methods, one call at a time. Any goroutine may use
// it.
type Actor struct {
	value *task.Value
	busy  chan struct{} // holds one token while a method runs
}

// Actor returns the actor of a key, nil if there is none. Any goroutine may call it.
func (p *Pool) Actor(key task.Key) *Actor {
	a, _ := p.actors.Load(key)
	actor, _ := a.(*Actor)
	return actor
}

// Forget removes the actor of a key, if there is one.
func (p *Pool) Forget(key task.Key) {
	if p.numActors == 0 {
		return
	}
	if _, ok := p.actors.LoadAndDelete(key); ok {
		p.numActors--
	}
}

// Call calls a method, after the calls in progress.
func (a *Actor) Call(ctx context.Context, info *task.Info, method string, args []*task.Value) (any, error) {
	select {
	case a.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-a.busy }()
	live, _ := a.value.Live()
	return task.CallMethod(task.WithInfo(ctx, info), method, live, args)
}
