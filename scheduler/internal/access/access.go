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

// proxied are the requests that a worker may make of another through the scheduler: those
// that it may make directly.
var proxied = []string{"actor_execute", "actor_attribute", "get_data", "update_data", "identity", "ping"}

// IsOnlyWorker reports whether a peer has shown a certificate that makes it a worker and
// not a client.
func IsOnlyWorker(c comm.Comm) bool {
	state := c.Info().TLS
	return state != nil && !secure.Allows(state, secure.Client) && !secure.Allows(state, secure.Scheduler)
}

// CheckProxy lets a worker ask another for what it may ask directly. A message may have a name twice: Python takes the
// last one, so all of them count.
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
			return Refused(log, c, "proxy", fmt.Sprintf("call %.40q of another worker", fmt.Sprint(p.Value)))
		}
	}
	if ops != 1 {
		return Refused(log, c, "proxy", fmt.Sprintf("send another worker a message with %d ops", ops))
	}
	return nil
}

// Refused logs and returns the error of a request that the certificate of a worker does not allow.
func Refused(log *slog.Logger, c comm.Comm, op, what string) error {
	log.Warn("request refused", "op", op, "peer", c.PeerAddr(), "reason",
		"a worker's certificate does not allow to "+what)
	return fmt.Errorf("scheduler: %s: the certificate of %s is a worker's and does not allow to %s: %w", op,
		c.PeerAddr(), what, fs.ErrPermission)
}

// SameHost reports whether two addresses have the same host.
func SameHost(a, b string) bool {
	x, err := comm.AddressHost(a)
	y, err2 := comm.AddressHost(b)
	return err == nil && err2 == nil && x == y
}
