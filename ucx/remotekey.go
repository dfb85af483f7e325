package ucx

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// RemoteKey lets operations of one endpoint reach memory that the peer registered.
// It is made by [Endpoint.Unpack], ends with its endpoint at the latest, and is safe
// for any number of goroutines.
type RemoteKey struct {
	ep       *Endpoint
	addr     uint64 // start of the peer's memory
	size     uint64
	kind     mem.Kind
	readOnly bool
	h        uintptr // ms_rkey
	serial   uint64  // which use of the ms_rkey this is
	peerErrs bool    // the endpoint has error mode ErrorPeer
	released atomic.Bool
}

// keyPadding follows the packed key in memory. UCX gets no length: what a damaged key
// makes it read beyond lies in here. All ones end the list of device distances that
// newer releases look for, and are the longest entry of the memory domains.
const keyPadding = 64*256 + 256

// Unpack opens a peer's memory for the operations of this endpoint. The key must be
// of memory that this endpoint's peer registered. A key to device memory makes
// UCX look at the worker's device, or device 0 if it has used none yet.
//
// Where the peer uses another UCX release whose key this one does not understand, the
// peer's worker carries the accesses out, instead of hardware or shared memory.
func (ep *Endpoint) Unpack(key MemoryKey) (*RemoteKey, error) {
	fail := func(err error) (*RemoteKey, error) {
		return nil, &OpError{Op: "unpack remote key", Peer: ep.peer, Err: err}
	}
	if err := key.check(); err != nil {
		return fail(err)
	}
	if err := ep.reason(); err != nil {
		return fail(err)
	}
	k := &RemoteKey{ep: ep, addr: key.addr, size: key.size, kind: key.kind, readOnly: key.readOnly}
	lib := ep.w.ctx.lib
	foreign := key.lib != lib.api()
	err := errForeignKey
	if !foreign || lib.AtLeast(1, 19) { // before, UCX crashed after a key that it refused
		err = k.unpack(key.packed)
	}
	if err != nil && foreign && ep.reason() == nil {
		err = k.unpack(key.bare())
	}
	if err != nil {
		if e := ep.reason(); e != nil {
			err = e
		}
		return fail(err)
	}
	ep.mu.Lock()
	if ep.state.Ended() { // its keys were released already
		ep.mu.Unlock()
		k.destroy()
		return fail(ep.reason())
	}
	if ep.rkeys == nil {
		ep.rkeys = map[*RemoteKey]struct{}{}
	}
	ep.rkeys[k] = struct{}{}
	ep.mu.Unlock()
	return k, nil
}

var errForeignKey = errors.New("ucx: key of another UCX release")

// api returns the library's version as keys carry it.
func (l *LibraryInfo) api() [2]uint8 { return [2]uint8{uint8(l.Major), uint8(l.Minor)} }

func (k *RemoteKey) unpack(packed []byte) error {
	buf := ucp.Malloc(len(packed) + keyPadding)
	defer ucp.FreeMemory(buf)
	b := unsafe.Slice((*byte)(buf), len(packed)+keyPadding)
	for i := copy(b, packed); i < len(b); i++ {
		b[i] = 0xff
	}
	err := k.ep.w.drv.call("unpack remote key", ucp.CallRkeyUnpack, func(s *ucp.Slot) {
		s.Buf, s.Hdr = uintptr(buf), uintptr(unsafe.Pointer(k.ep.c))
		if (View{kind: k.kind}).onDevice() {
			s.Device = 0
		}
	}, func(s *ucp.Slot) { k.h, k.serial, k.peerErrs = uintptr(s.RTag), s.RLen, s.Arg[0] != 0 })
	return errors.Unwrap(err)
}

// Len returns the length of the peer's memory in bytes.
func (k *RemoteKey) Len() int64 { return int64(k.size) }

// Kind returns where the peer's memory is.
func (k *RemoteKey) Kind() mem.Kind { return k.kind }

// ReadOnly reports memory that may be read but not written.
func (k *RemoteKey) ReadOnly() bool { return k.readOnly }

// Endpoint returns the endpoint the key belongs to.
func (k *RemoteKey) Endpoint() *Endpoint { return k.ep }

// Release gives the key back. Operations under way finish first; new ones are
// refused. Releasing again does nothing.
func (k *RemoteKey) Release() {
	k.ep.mu.Lock()
	delete(k.ep.rkeys, k)
	k.ep.mu.Unlock()
	k.destroy()
}

func (k *RemoteKey) destroy() {
	if k.released.Swap(true) {
		return
	}
	_ = k.ep.w.drv.internalCall("release remote key", ucp.CallRkeyDestroy,
		func(s *ucp.Slot) { s.Buf, s.Arg[0] = k.h, k.serial }, nil)
}

// destroyKeys releases all keys of an endpoint. Those that operations still use end
// with the last of them.
func (ep *Endpoint) destroyKeys() {
	ep.mu.Lock()
	keys := ep.rkeys
	ep.rkeys = nil
	ep.mu.Unlock()
	for k := range keys {
		k.destroy()
	}
}

// reach returns the remote address of n bytes at off, or why an operation of ep must
// not go there.
func (k *RemoteKey) reach(ep *Endpoint, off int64, n int, write bool) (uint64, error) {
	switch {
	case k == nil:
		return 0, fmt.Errorf("ucx: nil *RemoteKey: %w", ErrInvalidParam)
	case k.ep != ep:
		return 0, fmt.Errorf("ucx: the remote key belongs to %v, not to %v: Unpack it there: %w", k.ep, ep,
			ErrInvalidParam)
	case off < 0 || uint64(off) > k.size || uint64(n) > k.size-uint64(off):
		return 0, fmt.Errorf("ucx: %d bytes at offset %d do not lie within the remote memory of %d bytes: %w", n,
			off, k.size, ErrOutOfRange)
	case write && k.readOnly:
		return 0, fmt.Errorf("ucx: the remote memory of %d bytes is read-only: %w", k.size, ErrInvalidParam)
	case k.released.Load():
		if err := ep.reason(); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("ucx: the remote key was released: %w", ErrClosed)
	}
	return k.addr + uint64(off), nil
}

// aim points a slot at remote memory.
func (k *RemoteKey) aim(s *ucp.Slot, addr uint64) {
	s.Tag, s.Mask, s.Hdr = addr, uint64(k.h), uintptr(k.serial)
}
