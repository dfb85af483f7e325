package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/wire"
)

// Versions of what Millstream peers speak among themselves, told in the handshake.
const (
	// Version is this release's.
	Version = 1
	// MinVersion is the oldest that it still speaks.
	MinVersion = 1
)

// HighestPickle is the newest pickle protocol that Go reads and writes.
const HighestPickle = 5

// Hello is what each side of a new comm sends first. Dask's keys are compression, python
// and pickle-protocol; the rest is in a key of its own, which Python ignores.
type Hello struct {
	// Compression that this side would like for frames, "" for none.
	Compression string
	// PickleProtocol is the highest that it reads.
	PickleProtocol int
	// Python is the version of a Python peer.
	Python []int
	// Millstream is set by Millstream peers.
	Millstream *PeerInfo
	// Cookie admits the dialling side to a listener that asks for one.
	Cookie []byte
	// Lines, of a listening side, admits further connections to the comm, which carry parts of large frames beside it;
	// empty for none.
	Lines []byte
	// Join makes the connection such a further line: what the other side's Lines was, which line it is, and of how
	// many in all (a byte each).
	Join []byte
}

// NewHello is this process's hello. On one host nothing is compressed, as in Dask.
func NewHello(compression string, sameHost bool, cookie []byte, features ...string) (Hello, error) {
	switch compression {
	case "auto":
		compression = "lz4"
	case "false", "none", "False", "None":
		compression = ""
	case "", "lz4", "zstd", "snappy", "zlib":
	default:
		return Hello{}, fmt.Errorf("comm: compression %q is not known: use auto, lz4, zstd, snappy, zlib or nothing "+
			"(distributed.comm.compression)", compression)
	}
	if sameHost {
		compression = ""
	}
	return Hello{
		Compression: compression, PickleProtocol: HighestPickle, Cookie: cookie,
		Millstream: &PeerInfo{Version: Version, Min: MinVersion, Features: features},
	}, nil
}

// HandshakeError is a handshake that cannot succeed however often it is tried.
type HandshakeError struct {
	// Reason says what the peer did.
	Reason string
}

// Error says that it was the handshake.
func (e *HandshakeError) Error() string { return "comm: handshake: " + e.Reason }

// Negotiate combines both hellos: the lower pickle protocol, the compression if both want
// the same, of Millstream's features those that both have.
func Negotiate(local, remote Hello) (Info, error) {
	if remote.PickleProtocol <= 0 {
		return Info{}, &HandshakeError{"the peer named no pickle-protocol: its version of Dask is older than this " +
			"one speaks (2025.3.1)"}
	}
	info := Info{
		PickleProtocol: min(local.PickleProtocol, remote.PickleProtocol),
		Python:         remote.Python,
	}
	if local.Compression == remote.Compression {
		info.Compression = local.Compression
	}
	if l, r := local.Millstream, remote.Millstream; l != nil && r != nil {
		if l.Version < r.Min || r.Version < l.Min {
			return Info{}, &HandshakeError{fmt.Sprintf("the peer speaks Millstream's protocol %d to %d, this side %d "+
				"to %d: update the older one", r.Min, r.Version, l.Min, l.Version)}
		}
		info.Millstream = &PeerInfo{Version: min(l.Version, r.Version), Min: r.Min}
		for _, f := range r.Features {
			if slices.Contains(l.Features, f) {
				info.Millstream.Features = append(info.Millstream.Features, f)
			}
		}
	}
	return info, nil
}

// ReadWriter is the part of a Comm that a handshake needs.
type ReadWriter interface {
	Read(ctx context.Context) (*wire.Message, error)
	Write(ctx context.Context, m *wire.Message) error
}

// Handshake sends the hello and reads the peer's. Both sides send first, so neither waits
// for the other. Before it, the comm must hold its peer to Limits.BeforeHandshake. A peer
// that speaks something else is a *HandshakeError, marked as Permanent.
func Handshake(ctx context.Context, c ReadWriter, local Hello) (Info, Hello, error) {
	out := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(local.Append(nil))}}
	// A peer that has refused us may already have closed; what it sent before says more
	// than the error of the write.
	werr := c.Write(ctx, out)
	if werr != nil && ctx.Err() != nil {
		return Info{}, Hello{}, werr
	}
	m, err := c.Read(ctx)
	if err != nil {
		if werr != nil {
			err = werr
		}
		return Info{}, Hello{}, err
	}
	defer m.Release()
	remote, err := ParseHello(m)
	if err == nil && werr != nil {
		return Info{}, Hello{}, werr
	}
	var info Info
	if err == nil {
		info, err = Negotiate(local, remote)
	}
	var bad *HandshakeError
	if errors.As(err, &bad) {
		err = Permanent(err)
	}
	return info, remote, err
}
