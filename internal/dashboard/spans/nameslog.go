package spans

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Records of the file of names. The first is the origin.
const (
	originName uint8 = iota + 1
	workerName
	rowName
	prefixName
	transportName
	horizonName
)

const (
	namesVersion  = 2
	maxNamesFile  = 256 << 20
	maxNameRecord = 2*maxText*3 + 64
)

// note appends a record to those that are not on disk yet: its size, checksum, kind and fields. n.mu is held.
func (n *names) note(kind uint8, fields ...any) {
	if !n.logged {
		return
	}
	p := []byte{kind}
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			p = binary.AppendUvarint(p, uint64(len(f)))
			p = append(p, f...)
		case int64:
			p = binary.AppendVarint(p, f)
		}
	}
	n.unsaved = binary.LittleEndian.AppendUint16(n.unsaved, uint16(len(p)))
	n.unsaved = binary.LittleEndian.AppendUint32(n.unsaved, crc32.Checksum(p, castagnoli))
	n.unsaved = append(n.unsaved, p...)
}

// setHorizon notes that what ended before was dropped.
func (n *names) setHorizon(horizon int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.horizon = horizon
	n.note(horizonName, horizon)
}

// load reads the file of names, up to the first record that is damaged. It reports whether there is a history.
func (s *Store) loadNames() (bool, error) {
	info, err := s.disk.names.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() > maxNamesFile {
		return false, fmt.Errorf("%w: file of names in %s has %d bytes; remove the folder", ErrDamaged, s.disk.dir,
			info.Size())
	}
	p, err := io.ReadAll(io.NewSectionReader(s.disk.names, 0, info.Size()))
	if err != nil {
		return false, err
	}
	all := len(p)
	for first := true; ; first = false {
		d, rest := nextName(p)
		if d == nil {
			break
		}
		if kind := d.byte(); first != (kind == originName) || !s.loadName(kind, d) {
			break
		}
		p = rest
	}
	s.disk.namesSize = int64(all - len(p))
	if s.disk.namesSize == 0 && all > 0 {
		return false, fmt.Errorf("%w: file of names in %s; remove the folder", ErrDamaged, s.disk.dir)
	}
	return s.disk.namesSize > 0, nil
}

// nextName returns the next record of a file of names, nil at its end.
func nextName(p []byte) (record *decoder, rest []byte) {
	if len(p) < 6 {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint16(p))
	if n > maxNameRecord || len(p) < 6+n || crc32.Checksum(p[6:6+n], castagnoli) != binary.LittleEndian.Uint32(p[2:]) {
		return nil, nil
	}
	return &decoder{in: p[6 : 6+n]}, p[6+n:]
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.in)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) string(limit uint64) string { return string(d.take(int(d.uvarint(limit)))) }

// loadName adds a record to the names, and reports whether it is valid.
func (s *Store) loadName(kind uint8, d *decoder) bool {
	n := &s.names
	switch kind {
	case originName:
		version := d.varint()
		s.origin, s.floor = d.varint(), d.varint()
		return d.err == nil && version == namesVersion
	case workerName:
		address := d.string(3 * maxText)
		name := d.string(3 * maxText)
		return d.err == nil && n.worker(address, name) != noWorker
	case prefixName:
		name := d.string(3 * maxText)
		return d.err == nil && int(n.prefix(name)) == len(n.prefixes)-1+int(FirstPrefix)
	case transportName:
		name := d.string(3 * maxText)
		return d.err == nil && int(n.transport(name)) == len(n.transports)-1
	case rowName:
		worker, kind, slot, ident := d.varint(), d.varint(), d.varint(), d.varint()
		return d.err == nil && n.loadRow(worker, kind, slot, ident)
	case horizonName:
		s.index.horizon = d.varint()
		return d.err == nil && s.index.horizon >= 0 && s.index.horizon <= maxTime
	}
	return false
}

// loadRow adds the row of a thread or a slot.
func (n *names) loadRow(worker, kind, slot, ident int64) bool {
	if worker < 0 || worker >= int64(len(n.workers)) || slot < 0 {
		return false
	}
	w := n.workers[worker]
	var known *bool
	var row *uint32
	switch {
	case kind == int64(threadKind) && slot == int64(len(w.threads)) && slot < maxThreads:
	case kind == int64(transferKind) && slot < transferSlots:
		known, row = &w.slots[slot].used, &w.slots[slot].row
	case kind == int64(diskKind) && slot < int64(len(w.disk)):
		known, row = &w.disk[slot].used, &w.disk[slot].row
	default:
		return false
	}
	if known != nil && *known {
		return false
	}
	id, ok := n.newRow(uint32(worker), uint8(kind), int(slot), ident)
	switch {
	case !ok:
		return false
	case known == nil:
		w.addThread(ident, id)
	default:
		*known, *row = true, id
	}
	return true
}
