package sim

import (
	"errors"
	"testing"
	"time"

	"go.millstream.dev/comm"
)

// TestAddresses checks that functions on addresses support sim://, and that dialing without a network fails
// immediately with a fix.
func TestAddresses(t *testing.T) {
	if host, err := comm.AddressHost("sim://worker-1:8786"); err != nil || host != "worker-1" {
		t.Errorf("host %q, %v", host, err)
	}
	if host, port, err := comm.AddressHostPort("sim://worker-1:8786"); err != nil || host != "worker-1" ||
		port != 8786 {
		t.Errorf("host %q, port %d, %v", host, port, err)
	}
	if a, err := comm.ResolveAddress(t.Context(), "sim://worker-1:8786"); err != nil || a != "sim://worker-1:8786" {
		t.Errorf("resolved to %q, %v", a, err)
	}
	if _, err := comm.ResolveAddress(t.Context(), "sim://worker-1"); err == nil {
		t.Error("an address without a port was resolved")
	}
	var bad *comm.AddressError
	if _, err := comm.Dial(t.Context(), "sim://worker-1:1", comm.DialConfig{Timeout: time.Hour}); !errors.As(err,
		&bad) {
		t.Errorf("dial: %v", err)
	}
	if _, err := comm.Listen(t.Context(), "sim://worker-1:1", comm.ListenConfig{}); !errors.As(err, &bad) {
		t.Errorf("listen: %v", err)
	}
	if _, err := comm.LocalAddressFor(t.Context(), "sim://worker-1:1"); !errors.As(err, &bad) {
		t.Errorf("local address: %v", err)
	}
}
