package comm

import (
	"context"

	"go.millstream.dev/internal/comm/commaddr"
)

// AddressError is returned for an address that cannot be used.
type AddressError = commaddr.Error

// AddressHost returns the host, normally an IP address, on which an address is located.
func AddressHost(address string) (string, error) {
	_, loc := commaddr.Parse(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	return b.Host(loc)
}

// AddressHostPort returns host and port of an address of an IP-based scheme.
func AddressHostPort(address string) (host string, port int, err error) {
	_, loc := commaddr.Parse(address)
	b, err := backendOf(address)
	if err != nil {
		return "", 0, err
	}
	hp, ok := b.(interface {
		HostPort(loc string) (string, int, error)
	})
	if !ok {
		return "", 0, &AddressError{Address: address, Reason: "scheme without host and port"}
	}
	return hp.HostPort(loc)
}

// ResolveAddress resolves the names in an address, such as a host name to its IP address.
func ResolveAddress(ctx context.Context, address string) (string, error) {
	scheme, loc := commaddr.Parse(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	loc, err = b.Resolve(ctx, loc)
	if err != nil {
		return "", err
	}
	return commaddr.Unparse(scheme, loc), nil
}

// LocalAddressFor returns an address to listen on, without a port, at which the process at address can reach this one.
func LocalAddressFor(ctx context.Context, address string) (string, error) {
	scheme, loc := commaddr.Parse(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	loc, err = b.LocalFor(ctx, loc)
	if err != nil {
		return "", err
	}
	return commaddr.Unparse(scheme, loc), nil
}
