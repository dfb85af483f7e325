package ucx

import (
	"sync"

	"go.millstream.dev/internal/ucp"
)

// RemoteKey lets operations of one endpoint reach memory that the peer registered.
// It ends with its endpoint at the latest.
type RemoteKey struct {
	ep   *Endpoint
	addr uint64 // start of the peer's memory
	size uint64

	mu sync.Mutex
	h  uintptr // ucp_rkey_h; 0 after Release
}

// Release gives the key back. Releasing again does nothing.
func (k *RemoteKey) Release() {
	k.ep.mu.Lock()
	delete(k.ep.rkeys, k)
	k.ep.mu.Unlock()
	k.destroy()
}

func (k *RemoteKey) destroy() {
	k.mu.Lock()
	h := k.h
	k.h = 0
	k.mu.Unlock()
	if h != 0 {
		_ = k.ep.w.internalCall("release remote key", ucp.CallRkeyDestroy, func(s *ucp.Slot) { s.Buf = h }, nil)
	}
}

// destroyKeys releases all keys of an endpoint: UCX wants that before the close.
func (ep *Endpoint) destroyKeys() {
	ep.mu.Lock()
	keys := ep.rkeys
	ep.rkeys = nil
	ep.mu.Unlock()
	for k := range keys {
		k.destroy()
	}
}
