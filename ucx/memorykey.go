package ucx

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"go.millstream.dev/mem"
)

// MemoryKey tells a peer how to reach registered memory: where it lies, how long it
// is, and UCX's packed remote key. It comes from [Memory.Key], travels by any means
// (MarshalBinary) and is opened at the peer with [Endpoint.Unpack].
//
// UCX trusts the bytes of a key and can crash on wrong ones, so that a MemoryKey is
// only ever made whole: UnmarshalBinary refuses what is cut off, damaged or of
// another version. The checksum guards against accidents, not against enemies.
type MemoryKey struct {
	addr, size uint64
	kind       mem.Kind
	readOnly   bool
	lib        [2]uint8 // version of the UCX that packed it, major and minor
	packed     []byte
}

// Len returns the length of the memory in bytes; 0 for the zero MemoryKey.
func (k MemoryKey) Len() int64 { return int64(k.size) }

// Addr returns the address of the memory in its owner's process.
func (k MemoryKey) Addr() uint64 { return k.addr }

// Kind returns where the memory is.
func (k MemoryKey) Kind() mem.Kind { return k.kind }

// ReadOnly reports memory that peers may read but not write.
func (k MemoryKey) ReadOnly() bool { return k.readOnly }

// String describes the key for errors and logs.
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

// UnmarshalBinary is the reverse of MarshalBinary.
func (k *MemoryKey) UnmarshalBinary(b []byte) error {
	if len(b) < keyHeader+8 {
		return fmt.Errorf("ucx: memory key is truncated: %d bytes, at least %d are needed", len(b), keyHeader+8)
	}
	if string(b[:4]) != keyMagic {
		return fmt.Errorf("ucx: these %d bytes are no memory key (they begin with %q, not %q)", len(b), b[:4], keyMagic)
	}
	if b[4] != keyVersion {
		return fmt.Errorf("ucx: memory key of version %d; this side knows version %d: use the same Millstream release on both", b[4], keyVersion)
	}
	n := binary.LittleEndian.Uint16(b[26:])
	if n > maxPacked {
		return fmt.Errorf("ucx: memory key is damaged: it claims %d bytes of key, more than %d", n, maxPacked)
	}
	if want := keyHeader + int(n) + 8; len(b) != want {
		return fmt.Errorf("ucx: memory key is truncated or damaged: %d bytes instead of %d", len(b), want)
	}
	body := b[:len(b)-8]
	if string(checksum(body)) != string(b[len(b)-8:]) {
		return fmt.Errorf("ucx: memory key is damaged: checksum does not match its %d bytes", len(b))
	}
	if b[5]&^keyReadOnly != 0 || b[7] != 0 {
		return fmt.Errorf("ucx: memory key has flags %#x that this side does not know", b[5])
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

// check refuses keys that cannot be right.
func (k MemoryKey) check() error {
	switch {
	case k.packed == nil:
		return fmt.Errorf("ucx: empty memory key: %w", ErrInvalidParam)
	case k.kind > mem.Managed:
		return fmt.Errorf("ucx: memory key of unknown memory kind %d: %w", k.kind, ErrInvalidParam)
	case k.size == 0 || k.size > 1<<62 || k.addr+k.size < k.addr:
		return fmt.Errorf("ucx: memory key names the impossible range of %d bytes at %#x: %w", k.size, k.addr, ErrInvalidParam)
	}
	return checkPacked(k.packed)
}

// bare returns the packed key of the same memory without any transport's part, with
// which UCX lets the peer's worker carry the accesses out.
func (k MemoryKey) bare() []byte {
	b := make([]byte, mapAndType)
	b[mapAndType-1] = k.packed[mapAndType-1]
	return b
}

// mapAndType is the length of what comes first in a packed key.
const mapAndType = 9

// checkPacked walks over UCX's packed remote key as UCX will, which gets no length:
// a map of memory domains, a memory type, then for each domain a length byte and as
// many bytes. The form is the same from UCX 1.13 to 1.22; newer releases append.
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
			return bad(fmt.Sprintf("it ends inside memory domain %d", i))
		}
		at += 1 + int(b[at])
	}
	return nil
}
