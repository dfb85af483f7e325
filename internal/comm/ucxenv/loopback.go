package ucxenv

import (
	"maps"
	"net"
	"os"
	"slices"
)

// LoopbackDevice returns the name of the loopback interface, which UCX uses for tcp; "" if there is none.
func LoopbackDevice() string {
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			return i.Name
		}
	}
	return ""
}

// OnLoopback returns UCX options (without UCX_) for a context that serves this host only. The tcp transport listens on
// the address of each device that it may use, and its ports accept connections without authentication, so the only
// device is the loopback interface. UCX_NET_DEVICES, the option NET_DEVICES and lists of transports without tcp are
// left unchanged.
func OnLoopback(options map[string]string) map[string]string {
	_, inEnv := os.LookupEnv(varNetDevices)
	_, set := options["NET_DEVICES"]
	device := LoopbackDevice()
	if inEnv || set || device == "" || !tcpAllowed(options["TLS"]) {
		return options
	}
	out := maps.Clone(options)
	if out == nil {
		out = map[string]string{}
	}
	out["NET_DEVICES"] = device
	return out
}

// tcpAllowed reports whether UCX_TLS, or the option if that is not set, allows tcp.
func tcpAllowed(option string) bool {
	tls, set := os.LookupEnv("UCX_TLS")
	if !set {
		tls = option
	}
	l := parseList(tls)
	if len(l.items) == 0 {
		return true
	}
	if slices.Contains(l.items, "all") {
		return !l.negate
	}
	return slices.Contains(allowed(l), "tcp")
}
