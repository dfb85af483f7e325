// Package limits applies comm.Limits in transports: its defaults, and the limits of messages before and after the
// handshake.
package limits

import (
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/wire/framing"
)

const (
	// handshakeBytes bounds a message before the handshake is complete.
	handshakeBytes = 64 << 10
	// handshakeTime bounds the handshake of listeners.
	handshakeTime = 10 * time.Second
	// pending bounds the unfinished handshakes of a listener, if the limit of open files allows as many.
	pending = 1024
)

// Fill returns l with defaults for unset fields.
func Fill(l comm.Limits) comm.Limits {
	if l.Message <= 0 {
		l.Message = framing.DefaultMaxMessage
	}
	if l.Frames <= 0 {
		l.Frames = framing.DefaultMaxFrames
	}
	if l.Handshake <= 0 {
		l.Handshake = handshakeBytes
	}
	if l.HandshakeTime <= 0 {
		l.HandshakeTime = handshakeTime
	}
	if l.Pending <= 0 {
		l.Pending = min(pending, descriptors.ForHandshakes())
	}
	return l
}

// BeforeHandshake returns the limits of messages of a peer that is not authenticated yet.
func BeforeHandshake(l comm.Limits) framing.Limits {
	// A hello is one frame. Python's may have more if a value had to be pickled, which Parse then rejects with an
	// error.
	return framing.Limits{Message: int64(Fill(l).Handshake), Frames: 16}
}

// AfterHandshake returns the limits of all later messages.
func AfterHandshake(l comm.Limits) framing.Limits {
	l = Fill(l)
	return framing.Limits{Message: l.Message, Frames: l.Frames}
}
