package cli

import (
	"net"
	"path/filepath"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/cmdline"
)

// byFile is the address that --address-file names, "" without the flag.
func (f *serverFlags) byFile() (string, error) {
	if f.addressFile == "" {
		return "", nil
	}
	for flag, value := range map[string]string{"--host": f.host, "--interface": f.iface, "--protocol": f.protocol} {
		if value != "" {
			return "", cmdline.Usagef("--address-file does without IP addresses: leave out %s", flag)
		}
	}
	path, err := filepath.Abs(f.addressFile)
	if err != nil {
		return "", cmdline.Usagef("--address-file: %v", err)
	}
	return commaddr.Unparse(ucxcomm.FileScheme, path), nil
}

// isFile tells whether an address is one without IP.
func isFile(address string) bool {
	scheme, _ := commaddr.Parse(address)
	return scheme == ucxcomm.FileScheme
}

// httpBeside is where a process that serves an address serves HTTP, "" for nowhere: one without IP only where
// it was asked for.
func (f *serverFlags) httpBeside(address string) string {
	if isFile(address) && f.dashboardAddress == f.dashboardDefault {
		return ""
	}
	address = f.http()
	if address == "" {
		return ""
	}
	if full, err := httpguard.Address(address, f.httpHost()); err == nil {
		return full
	}
	return address // the server reports what is wrong with it
}

// httpHost is where HTTP is served where --dashboard-address names no host: that of --host or
// --interface, "" for the loopback interface.
func (f *serverFlags) httpHost() string {
	if f.host != "" {
		_, loc := commaddr.Parse(firstOf(f.host))
		if host, _, err := commaddr.ParseHostPort(loc, 0); err == nil {
			return host
		}
	}
	if f.iface != "" {
		if ip, err := commaddr.InterfaceIP(firstOf(f.iface)); err == nil {
			return ip
		}
	}
	return ""
}

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
