package sim

import (
	"context"

	"go.millstream.dev/comm"
)

func init() { comm.Register("sim", backend{}) }

// backend supports sim:// in functions on addresses, such as comm.AddressHost. It cannot connect, because a process may
// have many simulated networks.
type backend struct{}

func (backend) unsupported(loc string) error {
	return comm.Permanent(&comm.AddressError{Address: "sim://" + loc, Reason: "simulated hosts are on a separate " +
		"network; use sim.New(…).Host(name) as the comm.Network"})
}

// Dial returns an error.
func (b backend) Dial(_ context.Context, loc string, _ comm.DialConfig) (comm.Comm, error) {
	return nil, b.unsupported(loc)
}

// Listen returns an error.
func (b backend) Listen(_ context.Context, loc string, _ comm.ListenConfig) (comm.Listener, error) {
	return nil, b.unsupported(loc)
}

// Host returns the name of the host.
func (b backend) Host(loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	return host, err
}

// HostPort returns the name of the host and the port.
func (backend) HostPort(loc string) (string, int, error) { return parse("sim://" + loc) }

// Resolve returns the address unchanged.
func (b backend) Resolve(_ context.Context, loc string) (string, error) {
	_, _, err := b.HostPort(loc)
	return loc, err
}

// LocalFor returns an error, because the calling host is unknown.
func (backend) LocalFor(_ context.Context, loc string) (string, error) {
	return "", &comm.AddressError{Address: "sim://" + loc, Reason: "a simulated host listens on its own name; use " +
		"sim://NAME:0 with the name of its Host"}
}

// Encrypted returns false.
func (backend) Encrypted() bool { return false }
