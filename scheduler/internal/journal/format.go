package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Kind is the kind of a record. The owner of the journal defines its meaning; 1 to [MaxKind] are free.
type Kind uint8

// MaxKind is the largest kind that an owner may use; those above are reserved for the journal.
const MaxKind Kind = 0xEF

const (
	kindSeal Kind = 0xFE // last frame of a file that is complete: count of its records
	kindMark Kind = 0xFF // first frame of a group: all frames before it have been synced
)

// A file consists of a header and frames.
//
//	header  magic [8] · version u16 · type u16 · epoch u32 · number u64 · salt u64 · zero u32 · crc u32
//	frame   length u32 · crc u32 · kind u8 · data [length]
//	mark    data = signature [8] · offset of the frame u64
//	seal    data = signature [8] · number of records u64
//
// Little endian. The crc of a frame begins with the salt, so bytes of another file, or bytes that a client chose, are
// not valid as a frame of this one.
const (
	version    = 1
	headerSize = 40
	frameSize  = 9
	markSize   = frameSize + 16

	typeLog      = 1
	typeSnapshot = 2
)

var (
	magic     = [8]byte{'M', 'S', 'J', 'O', 'U', 'R', 'N', 0x1A}
	signature = [8]byte{0xA7, 'M', 'S', 'J', 'M', 'A', 'R', 'K'}
	table     = crc32.MakeTable(crc32.Castagnoli)
	le        = binary.LittleEndian
)

type header struct {
	typ    uint16
	epoch  uint32
	number uint64
	salt   uint64
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic[:])
	le.PutUint16(b[8:], version)
	le.PutUint16(b[10:], h.typ)
	le.PutUint32(b[12:], h.epoch)
	le.PutUint64(b[16:], h.number)
	le.PutUint64(b[24:], h.salt)
	le.PutUint32(b[36:], crc32.Checksum(b[:36], table))
	return b
}

func decodeHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("file has %d bytes, a header has %d", len(b), headerSize)
	}
	if [8]byte(b[:8]) != magic {
		return header{}, errors.New("not a file of a journal")
	}
	if v := le.Uint16(b[8:]); v != version {
		return header{},
			fmt.Errorf("format version %d, this program reads %d; open the journal with the release that wrote it", v,
				version)
	}
	if crc32.Checksum(b[:36], table) != le.Uint32(b[36:]) {
		return header{}, errors.New("wrong checksum of the header")
	}
	return header{typ: le.Uint16(b[10:]), epoch: le.Uint32(b[12:]), number: le.Uint64(b[16:]),
		salt: le.Uint64(b[24:])}, nil
}

// checksum returns the crc of a frame whose length and kind are in head. The crc field is ignored.
func checksum(salt uint64, head []byte, parts ...[]byte) uint32 {
	var fixed [13]byte
	le.PutUint64(fixed[:], salt)
	copy(fixed[8:], head[:4])
	fixed[12] = head[8]
	crc := crc32.Update(0, table, fixed[:])
	for _, p := range parts {
		crc = crc32.Update(crc, table, p)
	}
	return crc
}

// appendFrame appends one frame to b. The parts together are below 4 GiB.
func appendFrame(b []byte, salt uint64, kind Kind, parts ...[]byte) []byte {
	var n int
	for _, p := range parts {
		n += len(p)
	}
	var head [frameSize]byte
	le.PutUint32(head[:], uint32(n))
	head[8] = byte(kind)
	le.PutUint32(head[4:], checksum(salt, head[:], parts...))
	b = append(b, head[:]...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// appendOwn appends a mark or a seal.
func appendOwn(b []byte, salt uint64, kind Kind, value uint64) []byte {
	var data [16]byte
	copy(data[:], signature[:])
	le.PutUint64(data[8:], value)
	return appendFrame(b, salt, kind, data[:])
}
