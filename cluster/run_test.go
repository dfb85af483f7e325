package cluster

import "testing"

// A worker whose UCX can use neither tcp nor rdmacm accepts no data connections, as no peer could connect.
func TestCanConnectByIP(t *testing.T) {
	for tls, want := range map[string]bool{
		"": true, "all": true, "tcp": true, "tcp,cuda_copy,cuda_ipc": true, "^cuda_ipc": true, "^cuda_ipc,ib": true,
		"^tcp": false, "^ib,tcp": false, "self,sm,cuda_copy,cuda_ipc": false, "rc,cuda_copy": false,
	} {
		if got := canConnectByIP(map[string]string{"TLS": tls}); got != want {
			t.Errorf("UCX_TLS=%s: %v", tls, got)
		}
		if !canConnectByIP(map[string]string{"TLS": tls, "SOCKADDR_TLS_PRIORITY": "rdmacm"}) {
			t.Errorf("UCX_TLS=%s with rdmacm", tls)
		}
	}
}
