package comm

import (
	"crypto/tls"
	"math"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// DialConfig says how to connect. Its zero value is Dask's default.
type DialConfig struct {
	// TLS is the client's side of tls:// addresses; see package secure.
	TLS *tls.Config
	// Timeout bounds connecting, with all retries, and the handshake (default 30 s,
	// distributed.comm.timeouts.connect). A context that ends sooner wins.
	Timeout time.Duration
	// TCPTimeout is how long a peer may be silent to the kernel, to probes or to data, before
	// its connection is given up (default 30 s, at least 11 s, distributed.comm.timeouts.tcp).
	TCPTimeout time.Duration
	// Compression is what this side offers: "", "lz4", "zstd", "snappy", "zlib" or "auto"
	// (default none, distributed.comm.compression).
	Compression string
	// Limits bound what the peer may send.
	Limits Limits
	// Device allocates what arrives for GPUs; without it such frames arrive in host memory.
	Device mem.Resource
	// Staged says what happens to frames on GPUs where no transport can touch them.
	Staged StagedConfig
	// RequireEncryption refuses schemes that have none (distributed.comm.require-encryption).
	RequireEncryption bool
	// Invitation is shown to a Millstream listener that asks for one (see ListenConfig.Admit).
	Invitation []byte
	// PeerRoles, if any, are the roles of which the certificate of the listener must have one
	// (default: every certificate of the CA). Certificates without roles, as Dask's are, hold
	// all; without TLS nothing is checked.
	PeerRoles []secure.Role
	// Retrying, when set, is called after each attempt to connect that failed and will be repeated. It must not block.
	Retrying func(err error)
}

// To returns a copy of the configuration that accepts listeners of certain roles only; see
// PeerRoles.
func (c DialConfig) To(roles ...secure.Role) DialConfig {
	c.PeerRoles = roles
	return c
}

// ListenConfig says how to listen. Its zero value is Dask's default.
type ListenConfig struct {
	// TLS is the server's side of tls:// addresses; see package secure.
	TLS *tls.Config
	// TCPTimeout, Compression, Limits, Device and Staged are as in DialConfig.
	TCPTimeout  time.Duration
	Compression string
	Limits      Limits
	Device      mem.Resource
	Staged      StagedConfig
	// RequireEncryption refuses schemes that have none (distributed.comm.require-encryption).
	RequireEncryption bool
	// Interface is the network interface whose address is announced (ib0, eth0).
	Interface string
	// Refused, when set, is told of each connection that did not get through its handshake:
	// who it was and what was wrong. It must not block. Without it nobody hears of them.
	Refused func(peer string, err error)
	// Failed, when set, is called when connections cannot be accepted, mostly for want of
	// descriptors; at most once a second. It must not block.
	Failed func(err error)
	// Admit, when set, admits only peers that show an invitation for which it returns true. peer
	// is their address.
	Admit func(peer string, invitation []byte) bool
}

// Limits bound what a peer can make this side hold. The zero value is the default.
type Limits struct {
	// Message is the largest message in bytes (default 64 GiB: allocation follows the
	// bytes that arrive, not those that are promised).
	Message int64
	// Frames is the largest number of frames of a message (default 1 Mi; beyond 64 Ki
	// frames must have 16 bytes on average).
	Frames int
	// Announced bounds the memory, in bytes, that is allocated for frames which the peers of
	// one host have announced and not sent yet, where a transport needs memory for a whole
	// frame before it arrives: ucx:// and ucxx:// (default half of the memory that the
	// process may use; all hosts together have three quarters of it).
	Announced int64
	// Handshake bounds a message before the handshake is done, in bytes (default 64 KiB).
	Handshake int
	// HandshakeTime bounds the handshake (default 10 s for listeners).
	HandshakeTime time.Duration
	// Pending bounds connections of one listener that have not finished their handshake
	// (default 1024).
	Pending int
}

// Info is what a handshake agreed on.
type Info struct {
	// Compression of frames, "" for none.
	Compression string
	// PickleProtocol is the highest that both sides read.
	PickleProtocol int
	// Python is the peer's version, empty when it is not Python.
	Python []int
	// Millstream is set when the peer is one too.
	Millstream *PeerInfo
	// TLS is the state of a tls:// comm, nil elsewhere: it has the peer's certificate and so
	// its roles (secure.Allows).
	TLS *tls.ConnectionState
	// SameHost reports whether both ends are on one host.
	SameHost bool
	// CUDA reports whether the peer is told which frames are memory of a GPU (wire.Frame.CUDA), and so can put them
	// into its own. Without it they arrive as plain bytes, as Dask's tcp:// has them.
	CUDA bool
}

// EncodeOptions are those that suit the peer. Frames to a Millstream peer are not split:
// it reads what is large as it comes, and would have to put the shards together again.
func (i Info) EncodeOptions() wire.EncodeOptions {
	o := wire.EncodeOptions{Compression: i.Compression, PickleProtocol: i.PickleProtocol}
	if i.Millstream != nil {
		o.ShardSize = math.MaxInt
	}
	return o
}

// PeerInfo is what Millstream peers tell each other in the handshake's millstream key,
// which Python ignores.
type PeerInfo struct {
	Version, Min int
	Features     []string
}
