package ucxenv

import "testing"

func TestAllows(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "all": true, "cuda_ipc": true, "tcp,cuda": true, `tcp,\cuda_ipc`: true, "^tcp": true, "^": true,
		"tcp": false, "^cuda_ipc": false, "^cuda": false, "tcp,cuda_copy": false, "^tcp,cuda_ipc": false,
		"tcp,cuda_ipc:aux": false,
	} {
		if got := Allows(value, "cuda_ipc"); got != want {
			t.Errorf("UCX_TLS=%s: got %v, want %v", value, got, want)
		}
	}
}
