package cli

import (
	"net"
	"path/filepath"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/cmdline"
)

// byFile returns the address for --address-file, "" without the flag.
func (f *serverFlags) byFile() (string, error) {
	if f.addressFile == "" {
		return "", nil
	}
	for flag, value := range map[string]string{"--host": f.host, "--interface": f.iface, "--protocol": f.protocol} {
		if value != "" {
			return "", cmdline.Usagef("--address-file excludes %s", flag)
		}
	}
	path, err := filepath.Abs(f.addressFile)
	if err != nil {
		return "", cmdline.Usagef("--address-file: %v", err)
	}
	return commaddr.Unparse(ucxcomm.FileScheme, path), nil
}

// isFile reports whether an address is an address file.
func isFile(address string) bool {
	scheme, _ := commaddr.Parse(address)
	return scheme == ucxcomm.FileScheme
}

// httpBeside returns the HTTP address of a process that listens on address, "" for none. A process with an address file
// has an HTTP server only if --dashboard-address is set.
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
	return address // the server reports the error
}

// httpHost returns the host for HTTP if --dashboard-address has none: that of --host or --interface, "" for the
// loopback interface.
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

// browserURL returns a URL for browsers from the address of an HTTP server. For a server on all interfaces it uses the
// host of the scheduler address.
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
