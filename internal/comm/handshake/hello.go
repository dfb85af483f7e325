// Package handshake implements the first exchange of a new comm, in Dask's form, and the gate before Accept.
package handshake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/wire"
)

// Versions of the protocol between Millstream peers, sent in the handshake.
const (
	// Version is the version of this release.
	Version = 1
	// minVersion is the oldest supported version.
	minVersion = 1
)

// highestPickle is the newest supported pickle protocol.
const highestPickle = 5

// Hello is the first message of each side of a new comm. Dask's keys are compression, python and pickle-protocol; the
// rest is in a separate key, which Python ignores.
type Hello struct {
	// Compression is the compression of frames that this side prefers, "" for none.
	Compression string
	// PickleProtocol is the highest supported version.
	PickleProtocol int
	// Python is the version of a Python peer.
	Python []int
	// Millstream is set by Millstream peers.
	Millstream *comm.PeerInfo
	// Invitation admits the dialing side to a listener that requires one.
	Invitation []byte
	// Lines, of a listening side, is the token that admits stripes to the comm, further connections that carry parts of
	// large frames; empty for none.
	Lines []byte
	// Join makes the connection a stripe: the other side's Lines, the number of the stripe, and the total number (a
	// byte each).
	Join []byte
}

// New returns this process's hello. On one host nothing is compressed, as in Dask.
func New(wanted string, sameHost bool, invitation []byte, features ...string) (Hello, error) {
	use, err := compress.Parse(wanted)
	if err != nil {
		return Hello{}, fmt.Errorf("comm: %w", err)
	}
	if sameHost {
		use = ""
	}
	return Hello{
		Compression: use, PickleProtocol: highestPickle, Invitation: invitation,
		Millstream: &comm.PeerInfo{Version: Version, Min: minVersion, Features: features},
	}, nil
}

// Negotiate combines both hellos: the lower pickle protocol, the compression if both prefer the same, and the features
// of Millstream that both have.
func Negotiate(local, remote Hello) (comm.Info, error) {
	if remote.PickleProtocol <= 0 {
		return comm.Info{}, &comm.HandshakeError{Reason: "no pickle-protocol from the peer: its version of Dask is " +
			"older than the oldest " +
			"supported one (2025.3.1)"}
	}
	info := comm.Info{
		PickleProtocol: min(local.PickleProtocol, remote.PickleProtocol),
		Python:         remote.Python,
	}
	if local.Compression == remote.Compression {
		info.Compression = local.Compression
	}
	if l, r := local.Millstream, remote.Millstream; l != nil && r != nil {
		if l.Version < r.Min || r.Version < l.Min {
			return comm.Info{}, &comm.HandshakeError{Reason: fmt.Sprintf("the peer supports Millstream's protocol %d "+
				"to %d, this side %d "+
				"to %d: update the older one", r.Min, r.Version, l.Min, l.Version)}
		}
		info.Millstream = &comm.PeerInfo{Version: min(l.Version, r.Version), Min: r.Min}
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

// Do sends the hello and reads the peer's. Both sides send first, so neither waits for the other. Before it, the comm
// must apply limits.BeforeHandshake. A peer with another protocol is reported as a *HandshakeError, marked as
// Permanent.
func Do(ctx context.Context, c ReadWriter, local Hello) (comm.Info, Hello, error) {
	out := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(local.Append(nil))}}
	// A peer that has rejected the connection may already have closed it; its last message is more useful than the
	// error of the write.
	werr := c.Write(ctx, out)
	if werr != nil && ctx.Err() != nil {
		return comm.Info{}, Hello{}, werr
	}
	m, err := c.Read(ctx)
	if err != nil {
		if werr != nil {
			err = werr
		}
		return comm.Info{}, Hello{}, err
	}
	defer m.Release()
	remote, err := Parse(m)
	if err == nil && werr != nil {
		return comm.Info{}, Hello{}, werr
	}
	var info comm.Info
	if err == nil {
		info, err = Negotiate(local, remote)
	}
	var bad *comm.HandshakeError
	if errors.As(err, &bad) {
		err = comm.Permanent(err)
	}
	return info, remote, err
}
