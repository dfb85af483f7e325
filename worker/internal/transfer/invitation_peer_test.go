package transfer

import (
	"testing"

	"go.millstream.dev/secure"
)

// Between machines with several networks a peer shows its invitation from another address than that of its control
// connection. On one network the invitation is bound to the address.
func TestInvitedPeer(t *testing.T) {
	invitations, err := secure.NewInvitations(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer, local, data string // of the control connection, and where data connections are accepted
		from              string // of the data connection
		want              bool
	}{
		{"tls://192.0.2.7:1", "tls://192.0.2.1:9", "ucx://192.0.2.1:5", "ucx://192.0.2.7:2", true},
		{"tls://192.0.2.7:1", "tls://192.0.2.1:9", "ucx://192.0.2.1:5", "ucx://192.0.2.8:2", false},
		{"tls://192.0.2.7:1", "tls://192.0.2.1:9", "ucx://198.51.100.1:5", "ucx://198.51.100.7:2", true},
		{"tls://192.0.2.7:1", "tls://192.0.2.1:9", "ucx://127.0.0.1:5", "ucx://127.0.0.1:2", false},
		{"tls://127.0.0.1:1", "tls://127.0.0.1:9", "ucx://127.0.0.1:5", "ucx://127.0.0.1:2", true},
	} {
		invitation, err := invitations.Issue(invitedPeer(c.peer, c.local, c.data))
		if err != nil {
			t.Fatal(err)
		}
		if got := invitations.Admit(c.from, invitation); got != c.want {
			t.Errorf("control %s to %s, data %s to %s: admitted %t, want %t", c.peer, c.local, c.from, c.data, got,
				c.want)
		}
	}
}
