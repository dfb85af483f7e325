package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/cluster/internal/pynanny"
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
	python  *pynanny.Helper // nil without Python
	// prepared receives nil when the first process may be started, or why not.
	prepared chan error

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
	s := &nannyServer{n: n, address: l.ContactAddr(), cancel: cancel, prepared: make(chan error, 1)}
	if n.spec.Python {
		s.python = s.newPython(cfg)
	}
	n.server, n.spec.Nanny = s, s.address
	server := rpc.NewServer(rpc.Config{Type: "Nanny", Identity: s.identity, Authorize: nannyRoles.Authorize,
		Logger:  n.cfg.Logger,
		Waiting: nannyWaiting, Detached: nannyWaiting})
	s.handle(server)
	s.tasks.Go(func() {
		_ = server.Serve(ctx, l)
		_ = server.Close()
	})
	s.tasks.Go(func() {
		if len(n.cfg.Preload) > 0 {
			if err := s.python.Start(ctx); err != nil {
				s.prepared <- fmt.Errorf("cluster: preload of the nanny of %s: %w", n.title(), err)
				return
			}
		}
		s.register(ctx, cfg.Network, cfg.Dial)
	})
	return nil
}

// close ends the server; handlers that wait for the nanny end with its context.
func (s *nannyServer) close() {
	if s == nil {
		return
	}
	if s.python != nil {
		s.python.Close(teardownTime)
	}
	s.cancel()
	s.tasks.Wait()
}

func (s *nannyServer) identity() msgpack.Map {
	i := s.n.Info()
	return msgpack.MapOf("worker", i.Address, "pid", i.PID, "starts", i.Starts, "state", string(i.State))
}

// registerPause is the time between two attempts to register, because the scheduler may start later.
const registerPause = time.Second

// registerTime is the timeout of the first attempt to register: the first process waits for its end.
const registerTime = 5 * time.Second

// register registers the nanny with the scheduler, and reports when its worker has been started: in between, Dask's
// scheduler does not send plugins to nannies. The first process is started after the plugins of the scheduler are set
// up, or without them if the scheduler cannot be reached.
func (s *nannyServer) register(ctx context.Context, network comm.Network, dial comm.DialConfig) {
	for first := true; ; first = false {
		err := s.registerOnce(ctx, network, dial, first)
		if first {
			s.start()
		}
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

// start allows the first process to be started.
func (s *nannyServer) start() {
	select {
	case s.prepared <- nil:
	default: // again
	}
}

func (s *nannyServer) registerOnce(ctx context.Context, network comm.Network, dial comm.DialConfig, first bool) error {
	asking, cancel := ctx, context.CancelFunc(func() {})
	if first {
		asking, cancel = context.WithTimeout(ctx, registerTime)
	}
	defer cancel()
	c, err := network.Dial(asking, s.n.spec.Scheduler, dial.To(secure.Scheduler))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var reply msgpack.Map
	if err := rpc.Call(asking, c, "register_nanny", msgpack.MapOf("address", s.address), &reply); err != nil {
		return err
	}
	status := "ok"
	if plugins := s.plugins(reply); len(plugins) > 0 {
		err := s.python.AddPlugins(ctx, plugins)
		if err == nil && !first {
			err = s.n.Restart(ctx) // the process was started without them
		}
		if err != nil && ctx.Err() == nil {
			s.n.cfg.Logger.Error("nanny plugins not run", "error", err)
			s.keep("ERROR", "nanny plugins not run: "+err.Error())
			status = "error"
		}
	}
	s.start()
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
