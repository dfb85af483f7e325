package comm_test

import (
	"strings"
	"testing"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/tcp"
)

func TestAddressFunctions(t *testing.T) {
	ctx := t.Context()
	if host, err := comm.AddressHost("tcp://1.2.3.4:80"); host != "1.2.3.4" || err != nil {
		t.Error(host, err)
	}
	if host, port, err := comm.AddressHostPort("tls://[::1]:80"); host != "::1" || port != 80 || err != nil {
		t.Error(host, port, err)
	}
	if got, err := comm.ResolveAddress(ctx, "tcp://localhost:8786"); got != "tcp://127.0.0.1:8786" || err != nil {
		t.Error(got, err)
	}
	if got, err := comm.ResolveAddress(ctx, "[::1]:5"); got != "tcp://[::1]:5" || err != nil {
		t.Error(got, err)
	}
	if got, err := comm.LocalAddressFor(ctx, "tls://127.0.0.1:1234"); got != "tls://127.0.0.1" || err != nil {
		t.Error(got, err)
	}
	if got, err := comm.LocalAddressFor(ctx, "tcp://[::1]:1234"); got != "tcp://[::1]" || err != nil {
		t.Error(got, err)
	}
	for _, address := range []string{"tcp://host", "nope://x:1", "tcp://:::1"} {
		_, err1 := comm.AddressHost(address)
		_, _, err2 := comm.AddressHostPort(address)
		_, err3 := comm.ResolveAddress(ctx, address)
		_, err4 := comm.LocalAddressFor(ctx, address)
		for _, err := range []error{err1, err2, err3, err4} {
			if err == nil {
				t.Errorf("%s was understood", address)
			}
		}
	}
	for address, want := range map[string]string{
		"nope://x:1": "known: inproc, tcp, tls, ucx", "sim://x:1": "import go.millstream.dev/internal/testkit/sim",
	} {
		_, err := comm.Dial(ctx, address, comm.DialConfig{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dial %s: %v", address, err)
		}
		if _, err := comm.Listen(ctx, address, comm.ListenConfig{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("listen on %s: %v", address, err)
		}
	}
}
