package secure

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Role is what a process may do in a cluster.
type Role string

// The roles. Dask knows the first three.
const (
	// Client submits work.
	Client Role = "client"
	// Scheduler directs.
	Scheduler Role = "scheduler"
	// Worker computes.
	Worker Role = "worker"
	// Viewer only looks: dashboards, metrics.
	Viewer Role = "viewer"
)

// Roles lists all roles.
func Roles() []Role { return []Role{Client, Scheduler, Worker, Viewer} }

func (r Role) check() error {
	if !slices.Contains(Roles(), r) {
		return fmt.Errorf("secure: there is no role %q: use one of %v", string(r), Roles())
	}
	return nil
}

// A role is in a certificate as the URI millstream://CLUSTER/role/NAME among its
// alternative names.
const (
	uriScheme = "millstream"
	uriPath   = "/role/"
)

func roleURI(cluster string, r Role) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: cluster, Path: uriPath + string(r)}
}

// RolesOf returns the roles that a certificate was issued for. One that names none holds
// every role: it was made for Dask, where a certificate is a certificate.
func RolesOf(cert *x509.Certificate) []Role {
	var roles []Role
	named := false
	for _, u := range cert.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		named = true // a role that this version does not know is no reason to give all
		if r := Role(strings.TrimPrefix(u.Path, uriPath)); r.check() == nil {
			roles = append(roles, r)
		}
	}
	if !named {
		return Roles()
	}
	return roles
}

// Allows reports whether the peer of a connection holds a role. Without TLS nobody is
// known, and everybody may do everything, as in Dask.
func Allows(state *tls.ConnectionState, r Role) bool {
	if state == nil {
		return true
	}
	return len(state.PeerCertificates) > 0 && slices.Contains(RolesOf(state.PeerCertificates[0]), r)
}
