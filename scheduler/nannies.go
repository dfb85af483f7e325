package scheduler

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// registerNanny is register_nanny: a nanny is told of its plugins and says when its worker
// has been started.
func (s *Scheduler) registerNanny(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Address string `rpc:"address"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	address := string([]byte(in.Address))
	r.Takeover()
	reply, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		s.nannies[address] = true
		return msgpack.MapOf("status", "OK", "nanny-plugins", s.plugins.Nannies()), nil
	})
	if err != nil {
		return nil, err
	}
	if err = peers.Say(ctx, r.Comm, reply); err == nil {
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.loop.Do(context.WithoutCancel(ctx), func() { delete(s.nannies, address) })
	return rpc.NoReply, nil
}
