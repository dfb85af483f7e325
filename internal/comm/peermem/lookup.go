package peermem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// maxLookup is the maximum number of results that are looked up at once: IOV_MAX ranges of memory are read by one call,
// and at most a few megabytes.
const maxLookup = 512

// tableRef is the table of a peer.
type tableRef struct {
	pid    int
	addr   uintptr
	id     [idSize]byte
	scheme string // of the connection over which the peer has announced it
}

// found is a published result, and where it was found.
type found struct {
	header []byte
	parts  []devicePart
	slot   uintptr // address in the memory of the peer
	seq    uint64
}

// Published has results that were copied from the memory of a peer.
type Published struct {
	Values []*wire.Serialized // in the order of the keys
	Scheme string             // of the connection over which the peer has announced its table
	Bytes  int64              // in GPU memory
}

// remember stores the table that a peer has announced with a valid loan.
func (p *Peers) remember(peer string, ref tableRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables == nil {
		p.tables = map[string]tableRef{}
	}
	p.tables[peer] = ref
}

// forgetTable removes the table of a peer, unless it has announced another one.
func (p *Peers) forgetTable(peer string, ref tableRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables[peer] == ref {
		delete(p.tables, peer)
	}
}

// Read copies results that a peer on this machine has published in its Table, without a request to the peer. It returns
// nil if the peer has not published all of them, or they cannot be copied: then they must be requested. The only error
// is the cause of ctx.
func (p *Peers) Read(ctx context.Context, peer string, keys [][]byte) (*Published, error) {
	p.mu.Lock()
	ref, ok := p.tables[peer]
	denied := p.denied[peer]
	p.mu.Unlock()
	if !ok || denied.all || denied.device || len(keys) == 0 || len(keys) > maxLookup {
		return nil, nil
	}
	list, err := ref.find(keys)
	if list == nil {
		if err != nil {
			p.forgetTable(peer, ref) // the peer is gone, or has closed its table
		}
		return nil, nil
	}
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(nil)}}
	var parts []devicePart
	for i := range list {
		for _, part := range list[i].parts {
			part.frame = len(m.Frames)
			m.Frames = append(m.Frames, wire.HeapFrame(nil))
			parts = append(parts, part)
		}
	}
	q := &Request{peers: p, peer: peer, gpu: "same"}
	copied, n, err := q.copyDevice(ctx, parts, m)
	if err == nil {
		err = await(ctx, copied)
	}
	if err == nil {
		err = ref.verify(list)
	}
	if err != nil {
		m.Release()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, ErrDevice) {
			p.Deny(peer, err)
		}
		return nil, nil
	}
	out := &Published{Values: make([]*wire.Serialized, len(list)), Scheme: ref.scheme, Bytes: n}
	frames := m.Frames[1:]
	for i := range list {
		k := len(list[i].parts)
		out.Values[i] = &wire.Serialized{Header: list[i].header, Frames: frames[:k:k]}
		frames = frames[k:]
	}
	return out, nil
}

// find returns the published results of keys, nil if one of them is not published. It returns an error if there is no
// table.
func (r *tableRef) find(keys [][]byte) ([]found, error) {
	if r.pid == os.Getpid() && !SameProcess.Load() {
		return nil, errSelf
	}
	const each = slotProbe * slotSize
	buf := make([]byte, idSize+len(keys)*each)
	remote := make([]unix.RemoteIovec, 1, 1+len(keys))
	remote[0] = unix.RemoteIovec{Base: r.addr, Len: idSize}
	hashes := make([]uint64, len(keys))
	at := make([]uintptr, len(keys))
	for i, k := range keys {
		hashes[i] = hashOf(k)
		at[i] = r.addr + uintptr(slotSize*(1+slotOf(hashes[i])))
		remote = append(remote, unix.RemoteIovec{Base: at[i], Len: each})
	}
	if err := readRanges(r.pid, buf, remote); err != nil {
		return nil, err
	}
	if !bytes.Equal(buf[:idSize], r.id[:]) {
		return nil, errToken
	}
	list := make([]found, len(keys))
	for i, k := range keys {
		slots := buf[idSize+i*each:][:each]
		ok := false
		for j := 0; j < slotProbe && !ok; j++ {
			list[i], ok = readSlot(slots[j*slotSize:][:slotSize], hashes[i], k)
			list[i].slot = at[i] + uintptr(j*slotSize)
		}
		if !ok {
			return nil, nil
		}
	}
	return list, nil
}

// readSlot returns the result of a slot, if it is that of a key. The bytes are those of a peer.
func readSlot(slot []byte, hash uint64, key []byte) (f found, ok bool) {
	f.seq = binary.NativeEndian.Uint64(slot)
	n := binary.NativeEndian.Uint64(slot[16:])
	if f.seq == 0 || f.seq&1 != 0 || binary.NativeEndian.Uint64(slot[8:]) != hash || n > slotSize-slotHead {
		return f, false
	}
	r := msgpack.NewReader(slot[slotHead:][:n])
	if tuple(&r, 3) != nil {
		return f, false
	}
	k, err := r.ReadBytes()
	if err != nil || !bytes.Equal(k, key) {
		return f, false
	}
	if f.header, err = r.ReadBytes(); err != nil {
		return f, false
	}
	f.header = bytes.Clone(f.header)
	f.parts, err = readDeviceParts(&r, slotSize)
	return f, err == nil && len(f.parts) > 0
}

// verify checks that results are still published.
func (r *tableRef) verify(list []found) error {
	buf := make([]byte, idSize+8*len(list))
	remote := make([]unix.RemoteIovec, 1, 1+len(list))
	remote[0] = unix.RemoteIovec{Base: r.addr, Len: idSize}
	for i := range list {
		remote = append(remote, unix.RemoteIovec{Base: list[i].slot, Len: 8})
	}
	if err := readRanges(r.pid, buf, remote); err != nil {
		return err
	}
	if !bytes.Equal(buf[:idSize], r.id[:]) {
		return errToken
	}
	for i := range list {
		if binary.NativeEndian.Uint64(buf[idSize+8*i:]) != list[i].seq {
			return errToken
		}
	}
	return nil
}

// readRanges reads ranges of the memory of a process into dst, one after the other.
func readRanges(pid int, dst []byte, remote []unix.RemoteIovec) error {
	for {
		local := []unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		n, err := unix.ProcessVMReadv(pid, local, remote, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n != len(dst):
			return io.ErrUnexpectedEOF
		}
		return nil
	}
}
