package comm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.millstream.dev/internal/comm/commaddr"
)

// Backend is the transport of a scheme. Its addresses have no scheme.
type Backend interface {
	// Dial connects once, without retry, and performs the handshake (see Handshake). An error that a retry cannot fix
	// is marked with Permanent.
	Dial(ctx context.Context, loc string, cfg DialConfig) (Comm, error)
	// Listen listens on an address.
	Listen(ctx context.Context, loc string, cfg ListenConfig) (Listener, error)
	// Host returns the host on which an address is located.
	Host(loc string) (string, error)
	// Resolve resolves the names in an address.
	Resolve(ctx context.Context, loc string) (string, error)
	// LocalFor returns an address to listen on, without a port, at which the process at loc can reach this one.
	LocalFor(ctx context.Context, loc string) (string, error)
	// Encrypted reports whether the transport is encrypted.
	Encrypted() bool
}

// registry is the table of backends; packages fill it when they are initialized.
var registry struct {
	sync.RWMutex
	backends map[string]Backend
}

// Register registers a backend for a scheme. It is called by the init function of the backend's package, and panics if
// the scheme is already registered.
func Register(scheme string, b Backend) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.backends[scheme]; taken {
		panic("comm: two backends for scheme " + scheme)
	}
	if registry.backends == nil {
		registry.backends = make(map[string]Backend)
	}
	registry.backends[scheme] = b
}

// Schemes returns the registered schemes, sorted.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.backends))
}

// homes are the packages that register a scheme: packages client, scheduler, worker and cluster register tcp and tls,
// too.
var homes = map[string]string{
	"tcp": "comm/ucxcomm", "tls": "comm/ucxcomm", "ucx": "comm/ucxcomm", "ucxx": "comm/ucxcomm",
	"ucx-file": "comm/ucxcomm", "inproc": "cluster", "sim": "internal/testkit/sim",
}

func backendOf(address string) (Backend, error) {
	scheme, _ := commaddr.Parse(address)
	registry.RLock()
	b := registry.backends[scheme]
	registry.RUnlock()
	if b != nil {
		return b, nil
	}
	reason := fmt.Sprintf("unknown scheme %q (known: %s)", scheme, strings.Join(Schemes(), ", "))
	if home, ok := homes[scheme]; ok {
		reason += fmt.Sprintf("; the program must import go.millstream.dev/%s", home)
	}
	return nil, &AddressError{Address: address, Reason: reason}
}

// Default is the network of this machine: all registered backends.
var Default Network = machine{}

// Dial connects to an address on the Default network.
func Dial(ctx context.Context, address string, cfg DialConfig) (Comm, error) {
	return Default.Dial(ctx, address, cfg)
}

// Listen listens on an address on the Default network.
func Listen(ctx context.Context, address string, cfg ListenConfig) (Listener, error) {
	return Default.Listen(ctx, address, cfg)
}

type machine struct{}

func (machine) Dial(ctx context.Context, address string, cfg DialConfig) (Comm, error) {
	b, err := backendOf(address)
	if err != nil {
		return nil, err
	}
	if err := checkEncryption(b, address, cfg.RequireEncryption); err != nil {
		return nil, err
	}
	_, loc := commaddr.Parse(address)
	return Connect(ctx, address, cfg, func(ctx context.Context) (Comm, error) { return b.Dial(ctx, loc, cfg) })
}

func (machine) Listen(ctx context.Context, address string, cfg ListenConfig) (Listener, error) {
	// Like in Dask, a listener with certificates and no scheme is encrypted.
	if cfg.TLS != nil && !strings.Contains(address, "://") {
		address = "tls://" + address
	}
	b, err := backendOf(address)
	if err != nil {
		return nil, err
	}
	if err := checkEncryption(b, address, cfg.RequireEncryption); err != nil {
		return nil, err
	}
	_, loc := commaddr.Parse(address)
	return b.Listen(ctx, loc, cfg)
}

func checkEncryption(b Backend, address string, required bool) error {
	if !required || b.Encrypted() {
		return nil
	}
	return &AddressError{Address: address, Reason: "encryption is required (distributed.comm.require-encryption), " +
		"but the scheme has " +
		"none: use tls://"}
}
