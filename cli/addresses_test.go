package cli

import "testing"

func TestBrowserAddress(t *testing.T) {
	for _, tc := range []struct{ listening, scheduler, want string }{
		{"[::]:8787", "tls://10.0.0.1:8786", "10.0.0.1:8787"},
		{"0.0.0.0:8787", "tls://[fd00::1]:8786", "[fd00::1]:8787"},
		{"127.0.0.1:8787", "tls://10.0.0.1:8786", "127.0.0.1:8787"},
		{":8787", "ucx-file:///tmp/address", "127.0.0.1:8787"},
		{"[::1]:1", "inproc://x", "[::1]:1"},
	} {
		if got := browserAddress(tc.listening, tc.scheduler); got != tc.want {
			t.Errorf("%s of %s: got %s, want %s", tc.listening, tc.scheduler, got, tc.want)
		}
	}
}
