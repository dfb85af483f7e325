package comm

import (
	"time"

	"go.millstream.dev/wire"
)

// Defaults of Limits.
const (
	// DefaultHandshakeBytes bounds a message before the handshake is done.
	DefaultHandshakeBytes = 64 << 10
	// DefaultHandshakeTime bounds the handshake of listeners.
	DefaultHandshakeTime = 10 * time.Second
	// DefaultPending bounds the unfinished handshakes of a listener, where the limit of open
	// files leaves room for as many.
	DefaultPending = 1024
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
		l.Handshake = DefaultHandshakeBytes
	}
	if l.HandshakeTime <= 0 {
		l.HandshakeTime = DefaultHandshakeTime
	}
	if l.Pending <= 0 {
		l.Pending = min(DefaultPending, descriptorReserve(descriptorLimit())/2)
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
