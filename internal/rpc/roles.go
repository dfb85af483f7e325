package rpc

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"go.millstream.dev/secure"
)

// Roles says which roles may call which op: the peer must hold one of them. The entry ""
// is for ops that have none of their own; without it those are open to everybody who has
// got through the handshake. On comms without TLS nobody is known and everything is
// allowed, as in Dask; a certificate that names no role holds all.
//
//	rpc.Config{Authorize: rpc.Roles{
//		"register-worker": {secure.Worker},
//		"identity":        {secure.Client, secure.Worker, secure.Viewer},
//		"":                {secure.Client},
//	}.Authorize}
type Roles map[string][]secure.Role

// Authorize is for Config.Authorize.
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
		return nil // an op that nobody may call is what Config.Blocked is for
	}
	return fmt.Errorf("op %q wants one of the roles %v, which the certificate of %s does not name: %w", r.Op, wanted,
		r.Comm.PeerAddr(), fs.ErrPermission)
}
