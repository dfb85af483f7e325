package secure

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Role is the role of a process in a cluster, which determines what it may do.
type Role string

// The roles. The first three are those of Dask.
const (
	// Client submits work.
	Client Role = "client"
	// Scheduler assigns tasks to workers.
	Scheduler Role = "scheduler"
	// Worker runs tasks.
	Worker Role = "worker"
	// Viewer has read-only access: dashboards, metrics.
	Viewer Role = "viewer"
)

// Roles returns all roles.
func Roles() []Role { return []Role{Client, Scheduler, Worker, Viewer} }

func (r Role) check() error {
	if !slices.Contains(Roles(), r) {
		return fmt.Errorf("secure: unknown role %q: use one of %v", string(r), Roles())
	}
	return nil
}

// A role is encoded in a certificate as the URI millstream://CLUSTER/role/NAME among its alternative names.
const (
	uriScheme = "millstream"
	uriPath   = "/role/"
)

func roleURI(cluster string, r Role) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: cluster, Path: uriPath + string(r)}
}

// RolesOf returns the roles of a certificate. A certificate without roles has every role, since Dask's certificates
// have none.
func RolesOf(cert *x509.Certificate) []Role {
	var roles []Role
	named := false
	for _, u := range cert.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		named = true // an unknown role must not grant all
		if r := Role(strings.TrimPrefix(u.Path, uriPath)); r.check() == nil {
			roles = append(roles, r)
		}
	}
	if !named {
		return Roles()
	}
	return roles
}

// Allows reports whether the peer of a connection has a role. Without TLS peers are not identified and everything is
// allowed, as in Dask.
func Allows(state *tls.ConnectionState, r Role) bool {
	if state == nil {
		return true
	}
	return len(state.PeerCertificates) > 0 && slices.Contains(RolesOf(state.PeerCertificates[0]), r)
}
