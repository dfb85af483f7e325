package access

import (
	"testing"

	_ "go.millstream.dev/internal/comm/tcp"
)

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"tcp://10.0.0.1:1", "tcp://10.0.0.1:2", true}, {"tcp://10.0.0.1:1", "tls://10.0.0.1:2", true},
		{"tcp://10.0.0.1:1", "tcp://10.0.0.2:1", false}, {"nowhere", "nowhere", false}, {"tcp://a:1", "", false},
	} {
		if got := SameHost(c.a, c.b); got != c.want {
			t.Errorf("SameHost(%q, %q): got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
