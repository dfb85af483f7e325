package ucxcomm

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/mem"
)

// Settings configure UCX comms. The zero value is useful: UCX chooses the transports. FromConfig reads them from Dask's
// configuration, New and NewNetwork make comms with them, and they are sent as JSON to the processes of a cluster.
//
// Comms and listeners with equal settings share one UCX context in the process.
type Settings struct {
	// Options are UCX settings, with or without the prefix UCX_, such as {"TLS": "tcp,cuda_copy"}
	// (distributed-ucxx.tcp, .nvlink, .environment, …, as package config translates them). UCX_* environment variables
	// take precedence.
	Options map[string]string `json:"options,omitempty"`
	// Library is the path of a libucp.so.0; default: searched for, see ucx.Library. To connect to Python it must be the
	// release that Python uses: UCX connects by socket address only between compatible releases. MILLSTREAM_UCX_LIBRARY
	// has the same effect.
	Library string `json:"library,omitempty"`
	// MultiBuffer sends and expects messages in distributed-ucxx's multi-buffer form (distributed-ucxx.multi-buffer,
	// default false). Both ends must have the same setting: the form is not negotiated, as the handshake already uses
	// it.
	MultiBuffer bool `json:"multi_buffer,omitempty"`
	// Host allocates frames of 64 KiB and more in host memory, such as a mem.Pool of mapped memory, whose pages are
	// already populated. Messages must then be released, or the pool grows. Default: Go's heap.
	Host mem.Resource `json:"-"`
	// PlainTransports keeps comms between Millstream programs on distributed-ucxx's format and on UCX's socket
	// connection, as if the peer were Python (millstream.ucx.plain-transports).
	PlainTransports bool `json:"plain_transports,omitempty"`
	// Polling makes waits for messages on data connections between Millstream programs spin instead of sleeping
	// (millstream.ucx.polling, default false).
	Polling bool `json:"polling,omitempty"`

	byFile bool // set by fileBackend: no sockets, one worker for everything
}

// options returns the options in UCX's spelling, without prefix. Dask's YAML uses hyphens.
func (s *Settings) options() map[string]string {
	out := make(map[string]string, len(s.Options))
	for k, v := range s.Options {
		out[strings.TrimPrefix(strings.ReplaceAll(strings.ToUpper(k), "-", "_"), "UCX_")] = v
	}
	return out
}

// forHost adds the options that UCX needs for a host. On the loopback interface that is the device: otherwise UCX
// listens on the others too. For IPv6 addresses it is the family: each of its tcp devices uses one, IPv4 if there is a
// choice. The peer needs the same (UCX_TCP_AF_PRIO), unless it is a Millstream program, which sets it automatically.
func (s Settings) forHost(host string) Settings {
	if commaddr.IsLoopback(host) {
		s.Options = ucxenv.OnLoopback(s.options())
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Unmap().Is4() {
		return s
	}
	s.Options = s.options()
	if _, set := s.Options["TCP_AF_PRIO"]; !set {
		s.Options["TCP_AF_PRIO"] = "inet6,inet"
	}
	return s
}

// key returns a key that distinguishes settings that need separate UCX contexts.
func (s *Settings) key() string {
	var b strings.Builder
	b.WriteString(s.Library)
	if s.byFile {
		b.WriteString("\x00by file")
	}
	if s.Polling {
		b.WriteString("\x00polling")
	}
	o := s.options()
	for _, k := range slices.Sorted(maps.Keys(o)) {
		b.WriteString("\x00" + k + "=" + o[k])
	}
	return b.String()
}

// pooledFrom is the length from which frames are allocated from Settings.Host.
const pooledFrom = 64 << 10

// hostMemory allocates large frames from a resource and small ones on the heap.
type hostMemory struct{ mem.Resource }

func (h hostMemory) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	if n < pooledFrom {
		return mem.Heap.Alloc(ctx, n)
	}
	return h.Resource.Alloc(ctx, n)
}

// host returns the resource for frames in host memory; nil is Go's heap.
func (s *Settings) host() mem.Resource {
	if s.Host == nil {
		return nil
	}
	return hostMemory{s.Host}
}
