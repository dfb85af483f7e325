// Package options reads and chooses UCX's settings: which of them Millstream sets by default, and how to parse the text
// that UCX prints.
package options

import (
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.millstream.dev/internal/comm/ucxenv"
)

// defaultOptions are set unless the user set the variable or the option of the context. With the first ones, endpoints
// with error handling still use shared memory; otherwise UCX leaves it out and falls back to tcp on one host. The
// package comment of ucx describes how a peer's death is detected.
//
// UCX before 1.17 accepts only the common name, newer releases only the names of the transports; the other kind causes
// a warning on the user's terminal.
var defaultOptions = []struct {
	name, value string
	releases    releases // UCX releases that accept this name
	transports  []string // any of them accepts the option
	unlessSet   []string // variables with which the user overrides the default
}{
	{"POSIX_ERROR_HANDLING", "y", from117, []string{"posix"}, []string{"UCX_POSIX_ERROR_HANDLING",
		"UCX_MM_ERROR_HANDLING"}},
	{"SYSV_ERROR_HANDLING", "y", from117, []string{"sysv"}, []string{"UCX_SYSV_ERROR_HANDLING",
		"UCX_MM_ERROR_HANDLING"}},
	// One copy instead of two for large messages. UCX offers this transport in peer error mode only if memory is not
	// accessed after an error; here both sides close on any error, and the one that cancels waits for the other to do
	// so.
	{"CMA_MEMORY_INVALIDATE", "y", from117, []string{"cma"}, []string{"UCX_CMA_MEMORY_INVALIDATE"}},
	{"MEMORY_INVALIDATE", "y", before117, []string{"cma"}, []string{"UCX_CMA_MEMORY_INVALIDATE"}},
	{"MM_ERROR_HANDLING", "y", before117, []string{"posix", "sysv"}, []string{"UCX_POSIX_ERROR_HANDLING",
		"UCX_SYSV_ERROR_HANDLING", "UCX_MM_ERROR_HANDLING"}},
	// Endpoints by worker address with error handling have no remote memory access over tcp: a large message is copied
	// in segments, by default of 8 KiB. 64 KiB is the receive buffer of every UCX. A larger segment would overflow that
	// of a peer with UCX's default: UCX neither exchanges nor checks the size (docs/adr/0025-tcp-segments.md).
	{"TCP_TX_SEG_SIZE", "64k", from117, []string{"tcp"}, tcpSegments},
	{"TX_SEG_SIZE", "64k", before117, []string{"tcp"}, tcpSegments},
}

// tcpSegments are the variables of the sizes of tcp segments. UCX rejects a receive size smaller than the send size.
var tcpSegments = []string{"UCX_TCP_TX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE"}

type releases int

const (
	before117 releases = iota
	from117
)

// Config is the part of UCX's configuration that is changed here.
type Config interface {
	Modify(name, value string) int
}

// ApplyDefaults sets Millstream's defaults, unless the user set them by variable or by option of the context. is117
// reports whether the library is UCX 1.17 or newer, set has the options of the context.
func ApplyDefaults(uc Config, is117 bool, set map[string]string) {
	tls := effective(set, "UCX_TLS")
	for _, o := range defaultOptions {
		if is117 != (o.releases == from117) {
			continue
		}
		if !slices.ContainsFunc(o.transports, func(t string) bool { return selects(tls, t) }) {
			continue // UCX warns about options that no transport of the context accepts
		}
		if slices.Contains(o.transports, "tcp") && !hasInterface(effective(set, "UCX_NET_DEVICES")) {
			continue
		}
		isSet := func(name string) bool { return lookup(set, name) != nil }
		if !slices.ContainsFunc(o.unlessSet, isSet) {
			uc.Modify(o.name, o.value) // fails harmlessly in a library without that transport
		}
	}
}

// lookup returns the value that the user set for a variable, in the environment or by an option of the context, whose
// name may lack the prefix UCX_; nil if there is none.
func lookup(set map[string]string, variable string) *string {
	if v, ok := os.LookupEnv(variable); ok {
		return &v
	}
	for _, name := range []string{strings.TrimPrefix(variable, "UCX_"), variable} {
		if v, ok := set[name]; ok {
			return &v
		}
	}
	return nil
}

// effective returns the value of UCX_TLS or UCX_NET_DEVICES that the context will see.
func effective(set map[string]string, variable string) string {
	if v := lookup(set, variable); v != nil {
		return *v
	}
	return "all"
}

// selects reports whether a UCX_TLS value admits tcp or a shared-memory transport.
func selects(tls, transport string) bool {
	list, negated := strings.CutPrefix(strings.TrimSpace(tls), "^")
	named := false
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case transport, "all":
			named = true
		case "sm", "shm", "mm":
			named = named || transport != "tcp"
		}
	}
	return named != negated
}

// hasInterface reports whether a UCX_NET_DEVICES value admits a network interface that is up and has an address, which
// tcp needs.
func hasInterface(devices string) bool {
	list, err := net.Interfaces()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(i net.Interface) bool {
		const active = net.FlagUp | net.FlagRunning
		addrs, err := i.Addrs()
		return i.Flags&active == active && err == nil && len(addrs) > 0 && admits(devices, i.Name)
	})
}

// admits reports whether a UCX_NET_DEVICES value admits an interface.
func admits(devices, name string) bool {
	list, negated := strings.CutPrefix(strings.TrimSpace(devices), "^")
	named := false
	for d := range strings.SplitSeq(list, ",") {
		d = strings.TrimSpace(d)
		named = named || d == name || d == "all"
	}
	return named != negated
}

// CheckSockaddr returns an error for settings without any connection manager, with which UCX's socket connections abort
// the process instead of failing.
func CheckSockaddr(list []Option) error {
	for _, o := range list {
		if o.Name == "UCX_SOCKADDR_TLS_PRIORITY" {
			_, rdma := ucxenv.ReadNetDevices(os.DirFS("/sys"))
			return ucxenv.CheckSockaddr(o.Value, rdma)
		}
	}
	return nil
}

// Option is one effective UCX setting.
type Option struct {
	Name  string // with prefix: "UCX_TLS"
	Value string
}

// Parse parses settings as UCX prints them, sorted by name.
func Parse(text string) []Option {
	var out []Option
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "UCX_") {
			out = append(out, Option{name, value})
		}
	}
	slices.SortFunc(out, func(a, b Option) int { return strings.Compare(a.Name, b.Name) })
	return out
}

var resourceLine = regexp.MustCompile(`(?m)^#\s+resource\s+\d+\s*:\s+md\s+\d+\s+dev\s+\d+\s+flags\s+\S+\s+(\S+)\s*$`)

// Transports parses "tl/device" from UCX's context description.
func Transports(text string) []string {
	var out []string
	for _, m := range resourceLine.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// PinSafe reports whether no transport of the context caches registrations of ordinary memory: UCX does not see Go's
// own munmap and madvise, so a cached registration of Go memory could outlive the pages.
func PinSafe(transports []string) bool {
	if len(transports) == 0 {
		return false // unknown format: assume caching
	}
	for _, l := range transports {
		tl, _, _ := strings.Cut(l, "/")
		switch tl {
		case "self", "tcp", "posix", "sysv", "cma":
		default:
			if !strings.HasPrefix(tl, "cuda_") {
				return false
			}
		}
	}
	return true
}
