package comm

import (
	"crypto/tls"
	"math"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// DialConfig configures Dial. Its zero value has Dask's defaults.
type DialConfig struct {
	// TLS is the client's configuration for tls:// addresses; see package secure.
	TLS *tls.Config
	// Timeout bounds connecting, with all retries, and the handshake (default 30 s, distributed.comm.timeouts.connect).
	// A context that ends sooner takes precedence.
	Timeout time.Duration
	// TCPTimeout is how long a peer may be silent to the kernel, to probes or to data, before its connection is closed
	// (default 30 s, at least 11 s, distributed.comm.timeouts.tcp).
	TCPTimeout time.Duration
	// Compression is what this side offers: "", "lz4", "zstd", "snappy", "zlib" or "auto" (default none,
	// distributed.comm.compression).
	Compression string
	// Limits bound the messages of the peer.
	Limits Limits
	// Device allocates GPU memory for received frames; without it such frames arrive in host memory.
	Device mem.Resource
	// Staged specifies how frames on GPUs are sent where no transport can access them.
	Staged StagedConfig
	// RequireEncryption rejects schemes without encryption (distributed.comm.require-encryption).
	RequireEncryption bool
	// Invitation is sent to a Millstream listener that requires one (see ListenConfig.Admit).
	Invitation []byte
	// PeerRoles, if not empty, are the roles of which the certificate of the listener must have one (default: every
	// certificate of the CA). Certificates without roles, such as Dask's, have all; without TLS nothing is checked.
	PeerRoles []secure.Role
	// Retrying, if not nil, is called after each failed attempt to connect that will be repeated. It must not block.
	Retrying func(err error)
}

// To returns a copy of the configuration that accepts only listeners with certain roles; see PeerRoles.
func (c DialConfig) To(roles ...secure.Role) DialConfig {
	c.PeerRoles = roles
	return c
}

// ListenConfig configures Listen. Its zero value has Dask's defaults.
type ListenConfig struct {
	// TLS is the server's configuration for tls:// addresses; see package secure.
	TLS *tls.Config
	// TCPTimeout, Compression, Limits, Device and Staged are as in DialConfig.
	TCPTimeout  time.Duration
	Compression string
	Limits      Limits
	Device      mem.Resource
	Staged      StagedConfig
	// RequireEncryption rejects schemes without encryption (distributed.comm.require-encryption).
	RequireEncryption bool
	// Interface is the network interface whose address is announced (ib0, eth0).
	Interface string
	// Refused, if not nil, is called for each connection whose handshake failed, with the peer's address and the error.
	// It must not block. Without it such connections are dropped silently.
	Refused func(peer string, err error)
	// Failed, if not nil, is called when connections cannot be accepted, mostly for lack of descriptors; at most once a
	// second. It must not block.
	Failed func(err error)
	// Admit, if not nil, admits only peers whose invitation it accepts by returning true. peer is their address.
	Admit func(peer string, invitation []byte) bool
}

// Limits bound the memory that a peer can make this side allocate. The zero value has the defaults.
type Limits struct {
	// Message is the largest message in bytes (default 64 GiB: allocation follows the bytes received, not those
	// announced).
	Message int64
	// Frames is the largest number of frames of a message (default 1 Mi; beyond 64 Ki frames must have 16 bytes on
	// average).
	Frames int
	// Announced bounds the memory, in bytes, that is allocated for frames which the peers of one host have announced
	// and not sent yet, for transports that need memory for a whole frame before it arrives: ucx:// and ucxx://
	// (default half of the memory that the process may use; all hosts together have three quarters of it).
	Announced int64
	// Handshake bounds a message of the handshake, in bytes (default 64 KiB).
	Handshake int
	// HandshakeTime bounds the handshake (default 10 s for listeners).
	HandshakeTime time.Duration
	// Pending bounds connections of one listener that have not finished their handshake
	// (default 1024).
	Pending int
}

// Info is the result of a handshake.
type Info struct {
	// Compression is the compression of frames, "" for none.
	Compression string
	// PickleProtocol is the highest version that both sides support.
	PickleProtocol int
	// Python is the peer's Python version, empty if the peer is not Python.
	Python []int
	// Millstream is set if the peer is a Millstream process.
	Millstream *PeerInfo
	// TLS is the state of a tls:// comm, otherwise nil: it has the peer's certificate and its roles (secure.Allows).
	TLS *tls.ConnectionState
	// SameHost reports whether both ends are on one host.
	SameHost bool
	// CUDA reports whether frames are marked as GPU memory for the peer (wire.Frame.CUDA), so that it can receive them
	// into GPU memory. Otherwise they arrive as plain bytes, as with Dask's tcp://.
	CUDA bool
}

// EncodeOptions returns the encoding options for the peer. Frames to a Millstream peer are not split: it reads large
// frames incrementally, and would have to join the shards.
func (i Info) EncodeOptions() wire.EncodeOptions {
	o := wire.EncodeOptions{Compression: i.Compression, PickleProtocol: i.PickleProtocol}
	if i.Millstream != nil {
		o.ShardSize = math.MaxInt
	}
	return o
}

// PeerInfo is the information that Millstream peers exchange in the handshake's millstream key, which Python ignores.
type PeerInfo struct {
	Version, Min int
	Features     []string
}
