package rpc

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/rpc/internal/hooks"
)

// Defaults of Config.
const (
	defaultMaxComms     = 65536
	defaultFirstRequest = time.Minute
)

// boundComms sets the default bounds of comms and of waiting requests.
func (c *Config) boundComms() {
	if c.MaxComms <= 0 {
		c.MaxComms = min(defaultMaxComms, descriptors.ForComms())
	}
	if c.MaxCommsPerHost <= 0 {
		c.MaxCommsPerHost = max(c.MaxComms*3/4, 1)
	}
	if c.MaxWaiting <= 0 {
		c.MaxWaiting = max(c.MaxComms*3/4, 1)
	}
	if c.MaxWaitingPerHost <= 0 {
		c.MaxWaitingPerHost = max(c.MaxComms/2, 1)
	}
	if c.FirstRequest <= 0 {
		c.FirstRequest = defaultFirstRequest
	}
}

// hostOf returns the host of a comm's peer, or its whole address if it has none.
func hostOf(c comm.Comm) string {
	if host, err := comm.AddressHost(c.PeerAddr()); err == nil && host != "" {
		return host
	}
	scheme, _ := commaddr.Parse(c.PeerAddr())
	return scheme
}

// room makes room for one more comm of a host. If there is none it returns an idle comm, which the caller stops: of the
// same host if that has too many, otherwise of the host that has the most. It is called with s.life locked.
func (s *Server) room(host string) (idlest *session, err error) {
	from, limit, name := host, s.cfg.MaxCommsPerHost, "MaxCommsPerHost"
	switch {
	case s.life.hosts[host] >= s.cfg.MaxCommsPerHost:
	case len(s.life.comms) >= s.cfg.MaxComms:
		limit, name = s.cfg.MaxComms, "MaxComms"
		for h, n := range s.life.hosts {
			if n > s.life.hosts[from] {
				from = h
			}
		}
	default:
		return nil, nil
	}
	for n := range s.life.comms {
		if n.host == from && n.state.Load() == idle && (idlest == nil || n.active.Load() < idlest.active.Load()) {
			idlest = n
		}
	}
	if idlest == nil {
		return nil, fmt.Errorf("rpc: comm of %s refused: %d comms are open and busy (Config.%s)", host, limit, name)
	}
	s.forget(idlest)
	return idlest, nil
}

// forget removes a comm from the counts. It is called with s.life locked, and may be called twice.
func (s *Server) forget(n *session) {
	if _, ok := s.life.comms[n]; !ok {
		return
	}
	delete(s.life.comms, n)
	if s.life.hosts[n.host]--; s.life.hosts[n.host] == 0 {
		delete(s.life.hosts, n.host)
	}
}

// awaitFirst stops a session whose first request does not arrive: no data has arrived for Config.FirstRequest. A large
// request may take any time. The caller calls received when the request has arrived.
func (n *session) awaitFirst() (received func()) {
	limit, have := n.server.cfg.FirstRequest, hooks.Received(n.comm)
	var mu sync.Mutex
	var timer *time.Timer // guarded by mu; nil when the request has arrived
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(limit, func() {
		mu.Lock()
		defer mu.Unlock()
		if timer == nil {
			return
		}
		if now := hooks.Received(n.comm); now != have {
			have = now
			timer.Reset(limit)
			return
		}
		n.server.noisy.comms.Warn(n.server.cfg.Logger, "comm without a request closed", "server", n.server.id,
			"peer", n.comm.PeerAddr(), "after", limit)
		n.stop()
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

// commFailed logs how a comm has ended. A peer that violates the protocol is logged as a warning; one that disconnected
// in the middle of a message is not.
func (s *Server) commFailed(peer string, err error) {
	level, msg := slog.LevelDebug, "comm ended"
	var protocol *ProtocolError
	if errors.As(err, &protocol) || errors.Is(err, comm.ErrProtocol) {
		level, msg = slog.LevelWarn, "protocol violation by peer"
	}
	s.noisy.protocol.Log(s.cfg.Logger, level, msg, "server", s.id, "peer", peer, "error", err)
}
