package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// nannyServer answers the scheduler as Dask's nannies do: Client.restart, plugins for
// nannies, and the like. Its goroutines end with it.
type nannyServer struct {
	n       *Nanny
	address string
	cancel  context.CancelFunc
	tasks   sync.WaitGroup

	mu   sync.Mutex // owns what follows
	logs []any      // [level, text], the last ones
}

// nannyRoles says who may ask what.
var nannyRoles = rpc.Roles{
	"identity": {secure.Worker, secure.Client, secure.Scheduler, secure.Viewer},
	"":         {secure.Client, secure.Scheduler},
}

// serve begins to listen, and to tell the scheduler of the nanny.
func (n *Nanny) serve() error {
	cfg, err := n.spec.config(n.cfg.Logger)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := cfg.Network.Listen(ctx, n.cfg.Listen, cfg.Accept)
	if err != nil {
		cancel()
		return fmt.Errorf("cluster: nanny of %s: %w", n.title(), err)
	}
	s := &nannyServer{n: n, address: l.ContactAddr(), cancel: cancel}
	n.server, n.spec.Nanny = s, s.address
	server := rpc.NewServer(rpc.Config{Type: "Nanny", Identity: s.identity, Authorize: nannyRoles.Authorize,
		Logger:  n.cfg.Logger,
		Waiting: nannyWaiting, Detached: nannyWaiting})
	s.handle(server)
	s.tasks.Go(func() {
		_ = server.Serve(ctx, l)
		_ = server.Close()
	})
	s.tasks.Go(func() { s.register(ctx, cfg.Network, cfg.Dial) })
	return nil
}

// close ends the server and what it does: handlers that wait for the nanny end with the
// context.
func (s *nannyServer) close() {
	if s != nil {
		s.cancel()
		s.tasks.Wait()
	}
}

func (s *nannyServer) identity() msgpack.Map {
	i := s.n.Info()
	return msgpack.MapOf("worker", i.Address, "pid", i.PID, "starts", i.Starts, "state", string(i.State))
}

// registerPause is the time between two attempts to find the scheduler, which may come late.
const registerPause = time.Second

// register tells the scheduler that there is a nanny, and when its worker has been started:
// between these Dask's scheduler holds plugins for nannies back.
func (s *nannyServer) register(ctx context.Context, network comm.Network, dial comm.DialConfig) {
	for {
		err := s.registerOnce(ctx, network, dial)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.n.cfg.Logger.Debug("the nanny waits to register", "scheduler", s.n.spec.Scheduler, "error", err)
		select {
		case <-time.After(registerPause):
		case <-ctx.Done():
			return
		}
	}
}

func (s *nannyServer) registerOnce(ctx context.Context, network comm.Network, dial comm.DialConfig) error {
	c, err := network.Dial(ctx, s.n.spec.Scheduler, dial.To(secure.Scheduler))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var reply msgpack.Map
	if err := rpc.Call(ctx, c, "register_nanny", msgpack.MapOf("address", s.address), &reply); err != nil {
		return err
	}
	if plugins, ok := reply.Get("nanny-plugins"); ok {
		if m, ok := plugins.(msgpack.Map); ok {
			for _, p := range m {
				s.refusePlugin(fmt.Sprint(p.Key))
			}
		}
	}
	status := "ok"
	if err := s.n.Ready(ctx); err != nil {
		status = "error"
	}
	m, err := wire.Encode(msgpack.MapOf("status", status), wire.EncodeOptions{})
	if err != nil {
		return nil
	}
	_ = c.Write(ctx, m) // if the scheduler is gone by now the worker will notice
	return nil
}

// refusePlugin notes a nanny plugin, which is not run, and returns the reason for the client.
func (s *nannyServer) refusePlugin(name string) string {
	text := fmt.Sprintf("nanny plugin %s did not run: the nanny at %s is written in Go and runs no Python; use a "+
		"WorkerPlugin, "+
		"set variables in the environment of `millstream worker`, or start the workers with `dask worker`", name,
		s.address)
	s.note("WARNING", text)
	return text
}

// maxNannyLogs is how many lines are kept for get_logs.
const maxNannyLogs = 200

func (s *nannyServer) note(level, text string) {
	if level == "WARNING" {
		s.n.cfg.Logger.Warn(text)
	} else {
		s.n.cfg.Logger.Info(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.logs) == maxNannyLogs {
		s.logs = append(s.logs[:0], s.logs[1:]...)
	}
	s.logs = append(s.logs, []any{level, text})
}
