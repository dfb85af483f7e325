package rpc

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"go.millstream.dev/secure"
)

// Roles specifies which roles may call which op: the peer must have one of them. The entry "" is for ops without an
// entry; without it those are open to every peer that has completed the handshake. On comms without TLS peers are not
// identified and everything is allowed, as in Dask; a certificate without roles has all.
//
//	rpc.Config{Authorize: rpc.Roles{
//		"register-worker": {secure.Worker},
//		"identity":        {secure.Client, secure.Worker, secure.Viewer},
//		"":                {secure.Client},
//	}.Authorize}
type Roles map[string][]secure.Role

// Authorize implements Config.Authorize.
func (t Roles) Authorize(_ context.Context, r *Request) error {
	wanted, ok := t[r.Op]
	if !ok {
		if wanted, ok = t[""]; !ok {
			return nil
		}
	}
	state := r.Comm.Info().TLS
	if slices.ContainsFunc(wanted, func(role secure.Role) bool { return secure.Allows(state, role) }) {
		return nil
	}
	if state == nil {
		return nil // use Config.Blocked for ops that no peer may call
	}
	return fmt.Errorf("op %q requires one of the roles %v, which the certificate of %s does not have: %w", r.Op, wanted,
		r.Comm.PeerAddr(), fs.ErrPermission)
}
