package comm

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/wire"
)

// The hello is read by code of its own, which knows only what a hello needs: it is the one
// message that comes from nobody knows whom. It keeps nothing but the few values below,
// skips the rest without memory, and refuses anything that Python would unpickle.

// Append appends the hello as Dask's msgpack body.
func (h Hello) Append(b []byte) []byte {
	n := byte(3)
	if h.Millstream != nil {
		n++
	}
	b = append(b, 0x80|n)
	b = appendString(b, "compression")
	if h.Compression == "" {
		b = append(b, 0xc0)
	} else {
		b = appendString(b, h.Compression)
	}
	b = appendString(b, "python")
	b = append(b, 0x90|byte(min(len(h.Python), 15)))
	for _, v := range h.Python[:min(len(h.Python), 15)] {
		b = appendUint(b, v)
	}
	b = appendString(b, "pickle-protocol")
	b = appendUint(b, h.PickleProtocol)
	if h.Millstream == nil {
		return b
	}
	b = appendString(b, "millstream")
	n = 3
	if h.Cookie != nil {
		n++
	}
	b = append(b, 0x80|n)
	b = appendUint(appendString(b, "v"), h.Millstream.Version)
	b = appendUint(appendString(b, "min"), h.Millstream.Min)
	b = appendString(b, "features")
	b = append(b, 0xdc)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.Millstream.Features)))
	for _, f := range h.Millstream.Features {
		b = appendString(b, f)
	}
	if h.Cookie != nil {
		b = append(appendString(b, "cookie"), 0xc5)
		b = binary.BigEndian.AppendUint16(b, uint16(len(h.Cookie)))
		b = append(b, h.Cookie...)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	if len(s) < 32 {
		return append(append(b, 0xa0|byte(len(s))), s...)
	}
	b = append(b, 0xda)
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendUint(b []byte, v int) []byte {
	if v >= 0 && v < 128 {
		return append(b, byte(v))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
}

// maxHelloDepth is how deep a hello may nest. Dask's has two levels, ours three.
const maxHelloDepth = 8

// maxHelloList bounds the lists that are kept: python's version, features.
const maxHelloList = 64

// ParseHello reads a peer's hello.
func ParseHello(m *wire.Message) (Hello, error) {
	if len(m.Frames) != 1 {
		// Further frames carry what msgpack cannot, that is pickles. Dask would run them
		// here, before it knows the peer; no real peer sends any.
		return Hello{}, &HandshakeError{fmt.Sprintf("it has %d frames: a hello has one, and no pickles", len(m.Frames))}
	}
	d := helloReader{b: m.Frames[0].Bytes()}
	h := d.hello()
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes follow it", len(d.b))
	}
	if d.err != nil {
		return Hello{}, &HandshakeError{"the peer's hello is not Dask's: " + d.err.Error()}
	}
	return h, nil
}

// helloReader reads msgpack. The first error stays.
type helloReader struct {
	b   []byte
	err error
}

func (d *helloReader) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

func (d *helloReader) hello() (h Hello) {
	d.each(func(key string) {
		switch key {
		case "compression":
			if len(d.b) > 0 && d.b[0] == 0xc0 {
				d.b = d.b[1:]
			} else {
				h.Compression = d.text()
			}
		case "pickle-protocol":
			h.PickleProtocol = d.int()
		case "python":
			for n := d.list(); n > 0 && d.err == nil; n-- {
				h.Python = append(h.Python, d.int())
			}
		case "millstream":
			h.Millstream = new(PeerInfo)
			d.millstream(h.Millstream, &h.Cookie)
		case "__Pickled__", "__Serialized__":
			d.fail("it wants something unpickled")
		default:
			d.skip(0)
		}
	})
	return h
}

func (d *helloReader) millstream(p *PeerInfo, cookie *[]byte) {
	d.each(func(key string) {
		switch key {
		case "v":
			p.Version = d.int()
		case "min":
			p.Min = d.int()
		case "features":
			for n := d.list(); n > 0 && d.err == nil; n-- {
				p.Features = append(p.Features, d.text())
			}
		case "cookie":
			kind, n := d.head()
			if kind != 'b' {
				d.fail("the cookie is not bytes")
			}
			*cookie = append([]byte{}, d.take(n)...)
		default:
			d.skip(1)
		}
	})
}

// each calls f for every key of a map; f reads the value.
func (d *helloReader) each(f func(key string)) {
	kind, n := d.head()
	if kind != 'm' {
		d.fail("it is not a map")
	}
	for ; n > 0 && d.err == nil; n-- {
		f(d.text())
	}
}

func (d *helloReader) list() int {
	kind, n := d.head()
	if kind != 'a' || n > maxHelloList {
		d.fail("a list is missing or too long")
		return 0
	}
	return int(n)
}

func (d *helloReader) text() string {
	kind, n := d.head()
	if kind != 's' {
		d.fail("a string is missing")
	}
	return string(d.take(n))
}

func (d *helloReader) int() int {
	kind, n := d.head()
	if kind != 'i' || n > math.MaxInt32 {
		d.fail("a number is missing or too large")
		return 0
	}
	return int(n)
}

func (d *helloReader) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("it ends too soon")
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// skip passes over one value of any kind.
func (d *helloReader) skip(depth int) {
	if depth > maxHelloDepth {
		d.fail("it is nested too deeply")
		return
	}
	kind, n := d.head()
	switch kind {
	case 's', 'b', 'x':
		d.take(n)
	case 'm':
		for ; n > 0 && d.err == nil; n-- {
			d.skip(depth + 1)
			d.skip(depth + 1)
		}
	case 'a':
		for ; n > 0 && d.err == nil; n-- {
			d.skip(depth + 1)
		}
	}
}

// head reads the head of a value. Kinds: i(nt not below 0), s(tring), b(ytes), m(ap),
// a(rray), x (extension), o(ther, its bytes already taken). n is the value or the count.
func (d *helloReader) head() (kind byte, n uint64) {
	first := d.take(1)
	if d.err != nil {
		return 0, 0
	}
	sized := func(k byte, size int) (byte, uint64) { return k, d.number(size) }
	switch c := first[0]; {
	case c < 0x80:
		return 'i', uint64(c)
	case c < 0x90:
		return 'm', uint64(c & 0x0f)
	case c < 0xa0:
		return 'a', uint64(c & 0x0f)
	case c < 0xc0:
		return 's', uint64(c & 0x1f)
	case c == 0xc0, c == 0xc2, c == 0xc3, c >= 0xe0: // nil, false, true, -32 to -1
		return 'o', 0
	case c >= 0xc4 && c <= 0xc6:
		return sized('b', 1<<(c-0xc4))
	case c >= 0xc7 && c <= 0xc9:
		k, n := sized('x', 1<<(c-0xc7))
		return k, n + 1
	case c == 0xca, c == 0xcb: // floats
		d.take(4 << (c - 0xca))
		return 'o', 0
	case c >= 0xcc && c <= 0xcf:
		return sized('i', 1<<(c-0xcc))
	case c >= 0xd0 && c <= 0xd3: // signed; written for negative numbers only
		d.take(1 << (c - 0xd0))
		return 'o', 0
	case c >= 0xd4 && c <= 0xd8:
		return 'x', 1 + 1<<(c-0xd4)
	case c >= 0xd9 && c <= 0xdb:
		return sized('s', 1<<(c-0xd9))
	case c >= 0xdc && c <= 0xdd:
		return sized('a', 2<<(c-0xdc))
	case c >= 0xde:
		return sized('m', 2<<(c-0xde))
	}
	d.fail("byte %#x is not msgpack", first[0])
	return 0, 0
}

// number reads a big-endian number of size bytes.
func (d *helloReader) number(size int) (n uint64) {
	for _, c := range d.take(uint64(size)) {
		n = n<<8 | uint64(c)
	}
	return n
}
