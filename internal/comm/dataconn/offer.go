package dataconn

import (
	"slices"

	"go.millstream.dev/internal/wire/msgpack"
)

// Op requests the data connections of a worker. It has no arguments, and is answered with a [Reply].
const Op = "millstream-data-connections"

// Offer is a data connection as announced by its worker.
type Offer struct {
	// Address is the address to dial, "" for none.
	Address string `rpc:"address"`
	// Invitation admits one connection.
	Invitation []byte `rpc:"cookie"`
	// Boot is hostid.Boot of the worker's machine: a data connection leaves it only if it is trusted.
	Boot string `rpc:"boot,optional"`
}

// Reply is the answer to [Op].
type Reply struct {
	Offers []Offer `rpc:"offers"`
}

// Body returns the reply as a message.
func (r Reply) Body() msgpack.Map {
	list := make([]any, len(r.Offers))
	for i, o := range r.Offers {
		list[i] = msgpack.MapOf("address", o.Address, "cookie", o.Invitation, "boot", o.Boot)
	}
	return msgpack.MapOf("offers", list)
}

// usable returns the first data connection that may be used: one on this machine, or any if they are trusted. It
// borrows nothing.
func (r Reply) usable(boot string, trusted bool) Offer {
	for _, o := range r.Offers {
		if o.Address != "" && (trusted || boot != "" && o.Boot == boot) {
			o.Invitation = slices.Clone(o.Invitation)
			return o
		}
	}
	return Offer{}
}
