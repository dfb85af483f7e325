// Package upgrade runs programs of an earlier revision and of this one in one cluster: every role in both revisions,
// and the journal of the earlier scheduler read by this one.
//
// The tests have the build tag upgrade; `make test-upgrade` runs them, `make test-upgrade FROM=v0.1.0` with a revision
// of choice. The default is the newest tag, or the first revision whose messages are promised to be understood.
package upgrade
