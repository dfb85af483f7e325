// Package httpguard has the common parts of the HTTP servers of schedulers and workers: the address they listen on, who
// may use them, the host names they accept, and the page at "/".
package httpguard

import (
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Loopback is the default host of an HTTP server.
const Loopback = "127.0.0.1"

// Address returns the host:port to listen on for an address such as "8787", ":8787" or "10.0.0.1:8787". The default
// host is otherwise, or the loopback interface if that is empty too. All interfaces are "0.0.0.0:8787".
func Address(address, otherwise string) (string, error) {
	if _, err := strconv.Atoi(address); err == nil {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("dashboard address %q: %w; want host:port or a port", address, err)
	}
	if host == "" {
		host = otherwise
	}
	if host == "" {
		host = Loopback
	}
	return net.JoinHostPort(host, port), nil
}

// Reachable returns an address that a browser can open for the listening address of a server: a wildcard host is
// replaced.
func Reachable(listening, host string) string {
	ap, err := netip.ParseAddrPort(listening)
	if err != nil || !ap.Addr().IsUnspecified() {
		return listening
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = Loopback
	}
	return net.JoinHostPort(host, strconv.Itoa(int(ap.Port())))
}

// Guard passes on requests whose Host header names this server: an IP address, localhost, the name of the machine or
// one of hosts. A web page whose name is made to resolve to this machine (DNS rebinding) has another name, and gets
// 403.
func Guard(next http.Handler, hosts ...string) http.Handler {
	allowed := []string{"localhost"}
	if name, err := os.Hostname(); err == nil {
		allowed = append(allowed, strings.ToLower(name))
	}
	for _, h := range hosts {
		if h != "" {
			allowed = append(allowed, strings.ToLower(h))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
			host = h
		}
		host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
		if _, err := netip.ParseAddr(host); err != nil && !slices.Contains(allowed, host) {
			http.Error(w, "host name in the Host header is not allowed; use the IP address of the server, or allow "+
				"the name with --dashboard-hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Page is one entry of the index.
type Page struct{ Path, What string }

// Index serves a list of the pages at "/"; other paths are not found.
func Index(title string, pages ...Page) http.HandlerFunc {
	var b strings.Builder
	t := html.EscapeString(title)
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "+
		"charset=\"utf-8\"><title>%s</title></head>\n<body><h1>%s</h1>\n<ul>\n", t, t)
	for _, p := range pages {
		path := html.EscapeString(p.Path)
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>: %s</li>\n", strings.TrimPrefix(path, "/"), path,
			html.EscapeString(p.What))
	}
	b.WriteString("</ul></body></html>\n")
	page := []byte(b.String())
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}
}
