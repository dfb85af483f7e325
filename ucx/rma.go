package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// Put writes v to the peer's memory at off and returns when v may be reused. The bytes may become visible at the peer
// later: at the latest after [Endpoint.Flush]; [Worker.Fence] orders later operations after them.
//
// When ctx ends first and UCX still reads v, the endpoint is closed by force to release v, as for every blocking
// operation.
func (ep *Endpoint) Put(ctx context.Context, v View, rk *RemoteKey, off int64) error {
	return ep.transfer(ctx, ucp.OpPut, v, rk, off)
}

// StartPut is the non-blocking form of Put. v stays borrowed until the request is done.
func (ep *Endpoint) StartPut(v View, rk *RemoteKey, off int64) *Request {
	return ep.startTransfer(ucp.OpPut, v, rk, off)
}

// Get reads the peer's memory at off into v. v is filled when Get returns.
//
// When ctx ends first and UCX still writes v, the endpoint is closed by force to release v, as for every blocking
// operation.
func (ep *Endpoint) Get(ctx context.Context, v View, rk *RemoteKey, off int64) error {
	return ep.transfer(ctx, ucp.OpGet, v, rk, off)
}

// StartGet is the non-blocking form of Get. v stays borrowed until the request is done.
func (ep *Endpoint) StartGet(v View, rk *RemoteKey, off int64) *Request {
	return ep.startTransfer(ucp.OpGet, v, rk, off)
}

func (ep *Endpoint) transfer(ctx context.Context, op ucp.Op, v View, rk *RemoteKey, off int64) error {
	addr, err := ep.target(op, v, rk, off)
	if err != nil {
		return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
	}
	w := ep.w
	s, r, err := w.prepare(op, ep)
	if err != nil {
		return err
	}
	rk.aim(s, addr)
	if err := w.mem.bind(s, r, v, op == ucp.OpGet, false); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

func (ep *Endpoint) startTransfer(op ucp.Op, v View, rk *RemoteKey, off int64) *Request {
	addr, err := ep.target(op, v, rk, off)
	if err != nil {
		return failedRequest(op, ep, err)
	}
	return ep.w.startView(op, ep, v, op == ucp.OpGet, func(s *ucp.Slot) { rk.aim(s, addr) })
}

func (ep *Endpoint) target(op ucp.Op, v View, rk *RemoteKey, off int64) (uint64, error) {
	if v.bad != nil {
		return 0, v.bad
	}
	if ep.w.ctx.cfg.Features&RMA == 0 {
		return 0, fmt.Errorf("ucx: the context does not have the feature RMA; add it to Config.Features: %w",
			errUnsupported)
	}
	return rk.reach(ep, off, v.n, op == ucp.OpPut)
}

// RemoteKey gives operations of one endpoint access to memory that the peer registered. It is returned by
// [Endpoint.Unpack], becomes invalid with its endpoint at the latest, and is safe for concurrent use.
type RemoteKey struct {
	ep       *Endpoint
	addr     uint64 // start of the peer's memory
	size     uint64
	kind     mem.Kind
	readOnly bool
	h        uintptr // ms_rkey
	serial   uint64  // distinguishes the uses of the ms_rkey
	peerErrs bool    // the endpoint handles errors
	released atomic.Bool
}

// keyPadding follows the packed key in memory. UCX gets no length: what it reads past the end of a damaged key is in
// this padding. All ones end the list of device distances that newer releases look for, and are the longest entry of
// the memory domains.
const keyPadding = 64*256 + 256

// Unpack opens a peer's memory for the operations of this endpoint. The key must be of memory that this endpoint's peer
// registered. A key to device memory makes UCX use the worker's device, or device 0 if it has used none yet.
//
// If the peer uses another UCX release whose key this one does not support, the peer's worker performs the accesses,
// instead of hardware or shared memory.
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
	if !foreign || lib.AtLeast(1, 19) { // older releases crash after rejecting a key
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
	if ep.state.Ended() { // its keys are already released
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

// Kind returns the kind of the peer's memory.
func (k *RemoteKey) Kind() mem.Kind { return k.kind }

// Release releases the key. Operations in flight finish first; new ones are rejected. Releasing again does nothing.
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

// destroyKeys releases all keys of an endpoint. Keys in use are released with the last operation that uses them.
func (ep *Endpoint) destroyKeys() {
	ep.mu.Lock()
	keys := ep.rkeys
	ep.rkeys = nil
	ep.mu.Unlock()
	for k := range keys {
		k.destroy()
	}
}

// reach returns the remote address of n bytes at off, or why an operation of ep must not access it.
func (k *RemoteKey) reach(ep *Endpoint, off int64, n int, write bool) (uint64, error) {
	switch {
	case k == nil:
		return 0, fmt.Errorf("ucx: nil *RemoteKey: %w", ErrInvalidParam)
	case k.ep != ep:
		return 0, fmt.Errorf("ucx: remote key belongs to %v, not to %v: Unpack the key on that endpoint: %w", k.ep, ep,
			ErrInvalidParam)
	case off < 0 || uint64(off) > k.size || uint64(n) > k.size-uint64(off):
		return 0, fmt.Errorf("ucx: %d bytes at offset %d are outside the remote memory of %d bytes: %w", n,
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

// MemoryKey describes to a peer how to access registered memory: its address, its length, and UCX's packed remote key.
// It is returned by [Memory.Key], exchanged by any means (MarshalBinary) and opened at the peer with [Endpoint.Unpack].
//
// UCX trusts the bytes of a key and can crash on invalid ones, so a MemoryKey is always complete: UnmarshalBinary
// rejects keys that are truncated, damaged or of another version. The checksum protects against accidents, not against
// attacks.
type MemoryKey struct {
	addr, size uint64
	kind       mem.Kind
	readOnly   bool
	lib        [2]uint8 // version of the UCX that packed it, major and minor
	packed     []byte
}

// Len returns the length of the memory in bytes; 0 for the zero MemoryKey.
func (k MemoryKey) Len() int64 { return int64(k.size) }

// Kind returns the kind of the memory.
func (k MemoryKey) Kind() mem.Kind { return k.kind }

// String returns a description of the key for errors and logs.
func (k MemoryKey) String() string {
	return fmt.Sprintf("key to %d bytes of %s memory at %#x", k.size, k.kind, k.addr)
}

// The binary form, little endian:
//
//	"MSMK" version:1 flags:1 kind:1 zero:1 addr:8 size:8 UCX major:1 minor:1 n:2 packed:n checksum:8
const (
	keyMagic    = "MSMK"
	keyVersion  = 1
	keyHeader   = 28
	keyReadOnly = 1
	// maxPacked bounds UCX's part: 64 memory domains of at most 256 bytes, and distances.
	maxPacked = 32 << 10
)

// MarshalBinary returns the key as bytes with magic, version and checksum.
func (k MemoryKey) MarshalBinary() ([]byte, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, keyHeader+len(k.packed)+8)
	b = append(b, keyMagic...)
	flags := byte(0)
	if k.readOnly {
		flags = keyReadOnly
	}
	b = append(b, keyVersion, flags, byte(k.kind), 0)
	b = binary.LittleEndian.AppendUint64(b, k.addr)
	b = binary.LittleEndian.AppendUint64(b, k.size)
	b = append(b, k.lib[0], k.lib[1])
	b = binary.LittleEndian.AppendUint16(b, uint16(len(k.packed)))
	b = append(b, k.packed...)
	return append(b, checksum(b)...), nil
}

// UnmarshalBinary reverses MarshalBinary.
func (k *MemoryKey) UnmarshalBinary(b []byte) error {
	if len(b) < keyHeader+8 {
		return fmt.Errorf("ucx: memory key is truncated: %d bytes, want at least %d", len(b), keyHeader+8)
	}
	if string(b[:4]) != keyMagic {
		return fmt.Errorf("ucx: %d bytes are not a memory key: prefix %q, want %q", len(b), b[:4], keyMagic)
	}
	if b[4] != keyVersion {
		return fmt.Errorf("ucx: memory key has version %d, want %d: use the same Millstream release "+
			"on both", b[4], keyVersion)
	}
	n := binary.LittleEndian.Uint16(b[26:])
	if n > maxPacked {
		return fmt.Errorf("ucx: memory key is damaged: key length %d exceeds %d", n, maxPacked)
	}
	if want := keyHeader + int(n) + 8; len(b) != want {
		return fmt.Errorf("ucx: memory key is truncated or damaged: %d bytes instead of %d", len(b), want)
	}
	body := b[:len(b)-8]
	if string(checksum(body)) != string(b[len(b)-8:]) {
		return fmt.Errorf("ucx: memory key is damaged: checksum does not match its %d bytes", len(b))
	}
	if b[5]&^keyReadOnly != 0 || b[7] != 0 {
		return fmt.Errorf("ucx: memory key has unknown flags %#x", b[5])
	}
	u := MemoryKey{
		addr: binary.LittleEndian.Uint64(b[8:]), size: binary.LittleEndian.Uint64(b[16:]),
		kind: mem.Kind(b[6]), readOnly: b[5]&keyReadOnly != 0, lib: [2]uint8{b[24], b[25]},
		packed: append([]byte(nil), body[keyHeader:]...),
	}
	if err := u.check(); err != nil {
		return err
	}
	*k = u
	return nil
}

// check rejects keys that cannot be valid.
func (k MemoryKey) check() error {
	switch {
	case k.packed == nil:
		return fmt.Errorf("ucx: empty memory key: %w", ErrInvalidParam)
	case k.kind > mem.Managed:
		return fmt.Errorf("ucx: memory key of unknown memory kind %d: %w", k.kind, ErrInvalidParam)
	case k.size == 0 || k.size > 1<<62 || k.addr+k.size < k.addr:
		return fmt.Errorf("ucx: memory key has an invalid range of %d bytes at %#x: %w", k.size, k.addr,
			ErrInvalidParam)
	}
	return checkPacked(k.packed)
}

// bare returns the packed key of the same memory without the parts of transports, with which UCX lets the peer's worker
// perform the accesses.
func (k MemoryKey) bare() []byte {
	b := make([]byte, mapAndType)
	b[mapAndType-1] = k.packed[mapAndType-1]
	return b
}

// mapAndType is the length of the first part of a packed key.
const mapAndType = 9

// checkPacked parses UCX's packed remote key as UCX does, which gets no length: a map of memory domains, a memory type,
// then for each domain a length byte and as many bytes. The format is the same from UCX 1.13 to 1.22; newer releases
// append to it.
func checkPacked(b []byte) error {
	if len(b) > maxPacked {
		return fmt.Errorf("ucx: remote key of %d bytes exceeds %d: %w", len(b), maxPacked, ErrInvalidParam)
	}
	bad := func(what string) error {
		return fmt.Errorf("ucx: remote key is damaged: %s (%d bytes): %w", what, len(b), ErrInvalidParam)
	}
	if len(b) < mapAndType {
		return bad("too short for its memory domains")
	}
	if b[8] > 31 { // ten types are in use; UCX indexes arrays with this byte
		return bad(fmt.Sprintf("unknown memory type %d", b[8]))
	}
	at := mapAndType
	for i := range bits.OnesCount64(binary.NativeEndian.Uint64(b)) {
		if at >= len(b) || at+1+int(b[at]) > len(b) {
			return bad(fmt.Sprintf("truncated in memory domain %d", i))
		}
		at += 1 + int(b[at])
	}
	return nil
}
