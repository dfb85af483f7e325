package spans

import (
	"bytes"
	"encoding/binary"
)

// Keys of tasks such as name-0123…, with 32 hexadecimal digits, or tuples of such a text and small integers, are kept
// in parts: what precedes the digits, in a dictionary; the digits as 16 bytes, or as a reference to equal ones that
// came before; and what follows. Random digits make up most of a history, so they are stored as they are.

// Shapes of keys.
const (
	plainKey uint8 = iota // no digits
	hexKey                // 32 digits
	uuidKey               // 8-4-4-4-12 digits
	keyShapes
)

const (
	hexLength  = 32
	uuidLength = 36
	maxHeads   = 4096 // of a block
	maxHead    = 512  // bytes
)

// digits has the value of each hexadecimal digit in lower case, 16 for other bytes.
var digits = func() (t [256]uint8) {
	for i := range t {
		t[i] = 16
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = uint8(i)
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// splitKey returns the parts of a key.
func splitKey(key []byte, hash *[16]byte) (head []byte, shape uint8, tail []byte) {
	run := 0
	for i := 0; i < len(key); i++ {
		if digits[key[i]] > 15 {
			run = 0
			continue
		}
		run++
		begin := i + 1 - run
		if run == 8 && isUUID(key[begin:]) && begin <= maxHead {
			j := 0
			for _, c := range uuidGroups {
				unhex(hash[j/2:], key[begin:begin+c])
				j += c
				begin += c + 1
			}
			return key[:begin-uuidLength-1], uuidKey, key[begin-1:]
		}
		if run == hexLength && begin <= maxHead {
			unhex(hash[:], key[begin:begin+hexLength])
			return key[:begin], hexKey, key[begin+hexLength:]
		}
	}
	// Without a hash, the text up to the first number is the head.
	i := bytes.IndexAny(key[:min(len(key), maxHead)], "0123456789")
	if i < 0 {
		i = min(len(key), maxHead)
	}
	return key[:i], plainKey, key[i:]
}

var uuidGroups = [...]int{8, 4, 4, 4, 12}

func isUUID(p []byte) bool {
	if len(p) < uuidLength || p[8] != '-' || p[13] != '-' || p[18] != '-' || p[23] != '-' {
		return false
	}
	for i, c := range p[9:uuidLength] {
		if digits[c] > 15 && i != 4 && i != 9 && i != 14 {
			return false
		}
	}
	return true
}

func unhex(dst, src []byte) {
	for i := 0; i+1 < len(src); i += 2 {
		dst[i/2] = digits[src[i]]<<4 | digits[src[i+1]]
	}
}

func appendHex(dst, src []byte) []byte {
	for _, b := range src {
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// keyEncoder collects the parts of the keys of a block.
type keyEncoder struct {
	heads   map[string]uint32
	list    []byte // of heads: shape, length, text
	head    []uint32
	ref     []uint32 // 1 + index of the hash, 0 for the next one
	hashes  []byte
	lengths []uint32
	tails   []byte
	recent  [1024]struct {
		ref  uint32
		hash [16]byte
	}
}

func (k *keyEncoder) reset() {
	if k.heads == nil {
		k.heads = make(map[string]uint32)
	}
	clear(k.heads)
	k.list, k.head, k.ref, k.hashes = k.list[:0], k.head[:0], k.ref[:0], k.hashes[:0]
	k.lengths, k.tails = k.lengths[:0], k.tails[:0]
	for i := range k.recent {
		k.recent[i].ref = 0
	}
}

func (k *keyEncoder) add(key []byte) {
	var hash [16]byte
	head, shape, tail := splitKey(key, &hash)
	var buf [maxHead + 1]byte
	name := append(append(buf[:0], shape), head...)
	id, ok := k.heads[string(name)]
	if !ok && len(k.heads) >= maxHeads {
		name, shape, tail = append(buf[:0], plainKey), plainKey, key
		id, ok = k.heads[string(name)]
	}
	if !ok {
		id = uint32(len(k.heads))
		k.heads[string(name)] = id
		k.list = append(k.list, shape)
		k.list = binary.AppendUvarint(k.list, uint64(len(name)-1))
		k.list = append(k.list, name[1:]...)
	}
	k.head = append(k.head, id)
	k.lengths = append(k.lengths, uint32(len(tail)))
	k.tails = append(k.tails, tail...)
	if shape == plainKey {
		return
	}
	r := &k.recent[binary.LittleEndian.Uint32(hash[:])%uint32(len(k.recent))]
	if r.ref > 0 && r.hash == hash {
		k.ref = append(k.ref, r.ref)
		return
	}
	k.ref = append(k.ref, 0)
	k.hashes = append(k.hashes, hash[:]...)
	r.ref, r.hash = uint32(len(k.hashes)/16), hash
}

// encode appends the keys to a section.
func (k *keyEncoder) encode(e *encoder) {
	e.uvarint(uint64(len(k.heads)))
	e.uvarint(uint64(len(k.list)))
	e.text(k.list)
	column(e, k.head)
	e.uvarint(uint64(len(k.ref)))
	column(e, k.ref)
	e.section(rawBytes, k.hashes)
	column(e, k.lengths)
	e.uvarint(uint64(len(k.tails)))
	e.text(k.tails)
}

// head is an entry of the dictionary.
type head struct {
	shape uint8
	text  []byte
}

// decodeKeys reads the keys of n spans into the columns.
func decodeKeys(d *decoder, n int, c *columns) {
	heads := decodeHeads(d)
	which := readColumn[uint32](d, n, uint64(max(len(heads), 1)-1))
	refs := readColumn[uint32](d, int(d.uvarint(uint64(n))), uint64(n))
	var hashes []byte
	if d.byte() == rawBytes {
		hashes = d.take(int(d.uvarint(uint64(n) * 16)))
	} else {
		d.fail()
	}
	lengths := readColumn[uint32](d, n, maxKey)
	size := 0
	for _, l := range lengths {
		size += int(l)
	}
	if uint64(size) != d.uvarint(maxBlockKeys+maxKey) {
		d.fail()
	}
	tails := d.byteString(size)
	if d.err != nil || n > 0 && len(heads) == 0 {
		d.fail()
		return
	}
	c.keyEnd = make([]uint32, n)
	c.keys = make([]byte, 0, size+n*(hexLength+8))
	next, ref := 0, 0
	for i, l := range lengths {
		h := heads[which[i]]
		c.keys = append(c.keys, h.text...)
		if h.shape != plainKey {
			if ref >= len(refs) {
				d.fail()
				return
			}
			at := int(refs[ref]) - 1
			ref++
			if at < 0 {
				at = next
				next++
			}
			if at >= next || (at+1)*16 > len(hashes) {
				d.fail()
				return
			}
			c.keys = h.append(c.keys, hashes[at*16:][:16])
		}
		c.keys = append(c.keys, tails[:l]...)
		tails = tails[l:]
		if len(c.keys) > maxPlain {
			d.fail()
			return
		}
		c.keyEnd[i] = uint32(len(c.keys))
	}
}

func (h head) append(dst, hash []byte) []byte {
	if h.shape == hexKey {
		return appendHex(dst, hash)
	}
	for i, n := range uuidGroups {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = appendHex(dst, hash[:n/2])
		hash = hash[n/2:]
	}
	return dst
}

func decodeHeads(d *decoder) []head {
	n := int(d.uvarint(maxHeads + 1))
	list := decoder{in: d.byteString(int(d.uvarint(maxHeads * (maxHead + 3))))}
	heads := make([]head, 0, min(n, len(list.in)))
	for range n {
		h := head{shape: list.byte()}
		h.text = list.take(int(list.uvarint(maxHead)))
		if list.err != nil || h.shape >= keyShapes {
			d.fail()
			return nil
		}
		heads = append(heads, h)
	}
	return heads
}
