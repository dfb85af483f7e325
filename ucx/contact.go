package ucx

import (
	"hash/fnv"
	"sync"

	"go.millstream.dev/internal/proc/hostid"
)

// Contact is what another process needs to reach a worker by address, and to choose the address that works between
// the two. It is exchanged out of band, by [Worker.Dial] over the lifeline, say.
type Contact struct {
	// Address is the worker's whole address.
	Address WorkerAddress `json:"address,omitempty"`
	// Net is the part of it that goes over the network, without shared memory; empty where there is no network.
	Net WorkerAddress `json:"net,omitempty"`
	// Major and Minor are the release of UCX.
	Major uint16 `json:"major,omitempty"`
	Minor uint16 `json:"minor,omitempty"`
	// Home identifies the machine since its start and the network namespace in it; 0 if that is not known.
	Home uint64 `json:"home,omitempty"`
}

// Contact describes this worker.
func (w *Worker) Contact() (Contact, error) {
	address, err := w.Address()
	if err != nil {
		return Contact{}, err
	}
	net, err := w.NetAddress()
	if err != nil {
		net = nil // no network device: a namespace without interfaces
	}
	lib := w.ctx.lib
	return Contact{Address: address, Net: net, Major: uint16(lib.Major), Minor: uint16(lib.Minor), Home: home()}, nil
}

// Route picks the address to [Worker.Connect] with. Shared memory is left out of it in two cases, in which processes
// that meet over it hang:
//
//   - That of UCX up to 1.15 and that from 1.16 on do not understand each other.
//   - A process that sleeps is woken through a Unix socket without a file, and such a socket is not seen from another
//     network namespace, that of another container say, even where the memory itself is shared.
func (w *Worker) Route(c Contact) WorkerAddress { return c.route(w.ctx.lib, home()) }

func (c Contact) route(mine *LibraryInfo, at uint64) WorkerAddress {
	theirsNew := c.Major > 1 || c.Major == 1 && c.Minor >= 16
	apart := c.Home != 0 && at != 0 && c.Home != at
	if (apart || theirsNew != mine.AtLeast(1, 16)) && len(c.Net) > 0 {
		return c.Net
	}
	return c.Address
}

// home identifies this machine since its start and this process' network namespace.
var home = sync.OnceValue(func() uint64 {
	id := hostid.In("net")
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
})
