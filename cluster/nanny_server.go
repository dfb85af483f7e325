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

// nannyServer serves the scheduler like Dask's nannies do: Client.restart, plugins for nannies, and others. Its
// goroutines end with it.
type nannyServer struct {
	n       *Nanny
	address string
	cancel  context.CancelFunc
	tasks   sync.WaitGroup

	mu   sync.Mutex // owns logs
	logs []any      // pairs of level and text, the last maxNannyLogs
}

// nannyRoles specifies which roles may call which operations.
var nannyRoles = rpc.Roles{
	"identity": {secure.Worker, secure.Client, secure.Scheduler, secure.Viewer},
	"":         {secure.Client, secure.Scheduler},
}

// serve starts to listen and to register the nanny with the scheduler.
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

// close ends the server; handlers that wait for the nanny end with its context.
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

// registerPause is the time between two attempts to register, because the scheduler may start later.
const registerPause = time.Second

// register registers the nanny with the scheduler, and reports when its worker has been started: in between, Dask's
// scheduler does not send plugins to nannies.
func (s *nannyServer) register(ctx context.Context, network comm.Network, dial comm.DialConfig) {
	for {
		err := s.registerOnce(ctx, network, dial)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.n.cfg.Logger.Debug("nanny not registered; retrying", "scheduler", s.n.spec.Scheduler, "error", err)
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
				s.rejectPlugin(fmt.Sprint(p.Key))
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
	_ = c.Write(ctx, m) // if the scheduler is lost, the worker detects it
	return nil
}

// rejectPlugin logs a nanny plugin, which is not run, and returns the reason for the client.
func (s *nannyServer) rejectPlugin(name string) string {
	text := fmt.Sprintf("nanny plugin %s not run: the nanny at %s is written in Go and cannot run Python; use a "+
		"WorkerPlugin, "+
		"set variables in the environment of `millstream worker`, or start the workers with `dask worker`", name,
		s.address)
	s.n.cfg.Logger.Warn("nanny plugin not run", "plugin", name, "reason", text)
	s.keep("WARNING", text)
	return text
}

// maxNannyLogs is the number of lines kept for get_logs.
const maxNannyLogs = 200

// note logs an order of the scheduler or a client with its reason.
func (s *nannyServer) note(message, reason string) {
	s.n.cfg.Logger.Info(message, "reason", reason)
	s.keep("INFO", message+": "+reason)
}

// keep stores a line for get_logs.
func (s *nannyServer) keep(level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.logs) == maxNannyLogs {
		s.logs = append(s.logs[:0], s.logs[1:]...)
	}
	s.logs = append(s.logs, []any{level, text})
}
