package sim

import (
	"context"

	"go.millstream.dev/comm"
)

func init() { comm.Register("sim", backend{}) }

// backend lets functions that only look at addresses, such as comm.AddressHost, know
// sim://. It connects nobody: there may be many simulated networks in a process.
type backend struct{}

func (backend) none(loc string) error {
	return comm.Permanent(&comm.AddressError{Address: "sim://" + loc, Reason: "simulated hosts are on a network of " +
		"their own: use the comm.Network that sim.New(…).Host(name) is"})
}

// Dial fails.
func (b backend) Dial(_ context.Context, loc string, _ comm.DialConfig) (comm.Comm, error) {
	return nil, b.none(loc)
}

// Listen fails.
func (b backend) Listen(_ context.Context, loc string, _ comm.ListenConfig) (comm.Listener, error) {
	return nil, b.none(loc)
}

// Host is the host's name.
func (b backend) Host(loc string) (string, error) {
	host, _, err := b.HostPort(loc)
	return host, err
}

// HostPort is the host's name and the port.
func (backend) HostPort(loc string) (string, int, error) { return parse("sim://" + loc) }

// Resolve returns the address: names of hosts stand for themselves.
func (b backend) Resolve(_ context.Context, loc string) (string, error) {
	_, _, err := b.HostPort(loc)
	return loc, err
}

// LocalFor fails: which host asks is not known.
func (backend) LocalFor(_ context.Context, loc string) (string, error) {
	return "", &comm.AddressError{Address: "sim://" + loc, Reason: "a simulated host listens on its own name: use " +
		"sim://NAME:0 with the name of its Host"}
}

// Encrypted is false.
func (backend) Encrypted() bool { return false }
