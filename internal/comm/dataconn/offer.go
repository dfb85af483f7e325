package dataconn

import (
	"slices"

	"go.millstream.dev/internal/wire/msgpack"
)

// Op asks a worker for its lanes. It has no arguments, and is answered with a [Reply].
const Op = "millstream-lanes"

// Offer is a lane as its worker tells of it.
type Offer struct {
	// Address is what to dial, "" for no lane.
	Address string `rpc:"address"`
	// Invitation admits one connection.
	Invitation []byte `rpc:"cookie"`
	// Boot is hostid.Boot of the worker's machine: a lane leaves it only if it is trusted.
	Boot string `rpc:"boot,optional"`
}

// Reply is the answer to [Op].
type Reply struct {
	Lanes []Offer `rpc:"lanes"`
}

// Body is the reply as a message.
func (r Reply) Body() msgpack.Map {
	list := make([]any, len(r.Lanes))
	for i, o := range r.Lanes {
		list[i] = msgpack.MapOf("address", o.Address, "cookie", o.Invitation, "boot", o.Boot)
	}
	return msgpack.MapOf("lanes", list)
}

// usable is the first lane that may be used: one on this machine, or any where they are trusted. It borrows nothing.
func (r Reply) usable(boot string, trusted bool) Offer {
	for _, o := range r.Lanes {
		if o.Address != "" && (trusted || boot != "" && o.Boot == boot) {
			o.Invitation = slices.Clone(o.Invitation)
			return o
		}
	}
	return Offer{}
}
