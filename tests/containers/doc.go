// Package containers builds the image of deploy/Containerfile and runs it with podman: as its own user, with volumes,
// by the Compose files, and with shared and private namespaces between containers that move data.
//
// The tests have the build tag containers; `make test-containers` runs them. They need podman, which scripts/setup
// containers installs, and a base image that it makes of Debian's packages, so no image registry is used. Containers
// have a network namespace without interfaces, which those of one cluster share: they reach each other by the loopback
// address and nothing else.
package containers
