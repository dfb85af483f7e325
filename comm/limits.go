package comm

import (
	"time"

	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/wire"
)

// Defaults of Limits.
const (
	// defaultHandshakeBytes bounds a message before the handshake is done.
	defaultHandshakeBytes = 64 << 10
	// defaultHandshakeTime bounds the handshake of listeners.
	defaultHandshakeTime = 10 * time.Second
	// defaultPending bounds the unfinished handshakes of a listener, where the limit of open
	// files leaves room for as many.
	defaultPending = 1024
)

// WithDefaults fills what is not set.
func (l Limits) WithDefaults() Limits {
	if l.Message <= 0 {
		l.Message = wire.DefaultMaxMessage
	}
	if l.Frames <= 0 {
		l.Frames = wire.DefaultMaxFrames
	}
	if l.Handshake <= 0 {
		l.Handshake = defaultHandshakeBytes
	}
	if l.HandshakeTime <= 0 {
		l.HandshakeTime = defaultHandshakeTime
	}
	if l.Pending <= 0 {
		l.Pending = min(defaultPending, descriptors.ForHandshakes())
	}
	return l
}

// BeforeHandshake are the limits of the messages of a peer that nothing is known of yet.
func (l Limits) BeforeHandshake() wire.FrameLimits {
	l = l.WithDefaults()
	// A hello is one frame. Python's may have more if a value had to be pickled, which
	// ParseHello then refuses by its name.
	return wire.FrameLimits{Message: int64(l.Handshake), Frames: 16}
}

// AfterHandshake are the limits of all later messages.
func (l Limits) AfterHandshake() wire.FrameLimits {
	l = l.WithDefaults()
	return wire.FrameLimits{Message: l.Message, Frames: l.Frames}
}
