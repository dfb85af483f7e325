// Package access checks requests of workers that the table of roles alone cannot decide.
package access

import (
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// proxied are the requests that a worker may send to another worker through the scheduler: those that it may also send
// directly.
var proxied = []string{"actor_execute", "actor_attribute", "get_data", "update_data", "identity", "ping"}

// IsOnlyWorker reports whether the certificate of a peer makes it a worker and not a client.
func IsOnlyWorker(c comm.Comm) bool {
	state := c.Info().TLS
	return state != nil && !secure.Allows(state, secure.Client) && !secure.Allows(state, secure.Scheduler)
}

// CheckProxy checks a request that a worker sends to another worker through the scheduler. A message may contain a name
// twice: Python uses the last one, so all of them are checked.
func CheckProxy(log *slog.Logger, c comm.Comm, msg msgpack.Map) error {
	if !IsOnlyWorker(c) {
		return nil
	}
	ops := 0
	for _, p := range msg {
		if name := fmt.Sprintf("%s", p.Key); name != "op" {
			continue
		}
		ops++
		if op, ok := p.Value.(string); !ok || !slices.Contains(proxied, op) {
			return Reject(log, c, "proxy", fmt.Sprintf("call %.40q of another worker", fmt.Sprint(p.Value)))
		}
	}
	if ops != 1 {
		return Reject(log, c, "proxy", fmt.Sprintf("send another worker a message with %d ops", ops))
	}
	return nil
}

// Reject logs and returns the error of a request that the certificate of a worker does not allow.
func Reject(log *slog.Logger, c comm.Comm, op, what string) error {
	log.Warn("request refused", "op", op, "peer", c.PeerAddr(), "reason",
		"the certificate of a worker does not allow to "+what)
	return fmt.Errorf("scheduler: %s: the worker certificate of %s does not allow to %s: %w", op,
		c.PeerAddr(), what, fs.ErrPermission)
}

// SameHost reports whether two addresses have the same host.
func SameHost(a, b string) bool {
	x, err := comm.AddressHost(a)
	y, err2 := comm.AddressHost(b)
	return err == nil && err2 == nil && x == y
}
