package cli

import (
	"net"

	"go.millstream.dev/internal/comm/commaddr"
)

// browserURL returns a URL that a browser can open for the address of an HTTP server. A
// server on all interfaces is named by the host of the scheduler's address.
func browserURL(listening, scheduler string) string {
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return "http://" + listening + "/"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		_, loc := commaddr.Parse(scheduler)
		if h, _, err := net.SplitHostPort(loc); err == nil && h != "" {
			host = h
		}
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}
