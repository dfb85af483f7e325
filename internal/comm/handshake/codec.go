package handshake

import (
	"errors"
	"fmt"
	"math"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Append appends the hello as Dask's msgpack body.
func (h Hello) Append(b []byte) []byte {
	n := 3
	if h.Millstream != nil {
		n++
	}
	b = msgpack.AppendMapHeader(b, n)
	b = msgpack.AppendString(b, "compression")
	if h.Compression == "" {
		b = msgpack.AppendNil(b)
	} else {
		b = msgpack.AppendString(b, h.Compression)
	}
	b = msgpack.AppendString(b, "python")
	b = msgpack.AppendArrayHeader(b, len(h.Python))
	for _, v := range h.Python {
		b = msgpack.AppendInt(b, int64(v))
	}
	b = msgpack.AppendString(b, "pickle-protocol")
	b = msgpack.AppendInt(b, int64(h.PickleProtocol))
	if h.Millstream == nil {
		return b
	}
	b = msgpack.AppendString(b, "millstream")
	n = 3
	for _, v := range [][]byte{h.Invitation, h.Lines, h.Join} {
		if v != nil {
			n++
		}
	}
	b = msgpack.AppendMapHeader(b, n)
	b = msgpack.AppendInt(msgpack.AppendString(b, "v"), int64(h.Millstream.Version))
	b = msgpack.AppendInt(msgpack.AppendString(b, "min"), int64(h.Millstream.Min))
	b = msgpack.AppendArrayHeader(msgpack.AppendString(b, "features"), len(h.Millstream.Features))
	for _, f := range h.Millstream.Features {
		b = msgpack.AppendString(b, f)
	}
	if h.Invitation != nil {
		b = msgpack.AppendBytes(msgpack.AppendString(b, "cookie"), h.Invitation)
	}
	if h.Lines != nil {
		b = msgpack.AppendBytes(msgpack.AppendString(b, "lines"), h.Lines)
	}
	if h.Join != nil {
		b = msgpack.AppendBytes(msgpack.AppendString(b, "join"), h.Join)
	}
	return b
}

// maxHelloList bounds the lists of a hello: Python's version, features.
const maxHelloList = 64

// Parse parses the hello of a peer that is not authenticated yet. It keeps the few values of Hello, skips the rest
// without allocating, and rejects values that Dask would unpickle here.
func Parse(m *wire.Message) (Hello, error) {
	if len(m.Frames) != 1 {
		// Further frames carry values that msgpack cannot, that is pickles. Dask would run them before it knows the
		// peer; no real peer sends any.
		return Hello{}, &comm.HandshakeError{Reason: fmt.Sprintf("hello of the peer has %d frames, want one "+
			"and no pickles",
			len(m.Frames))}
	}
	d := helloReader{msgpack.NewReader(m.Frames[0].Bytes())}
	h, err := d.hello()
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return Hello{}, &comm.HandshakeError{Reason: "hello of the peer is not Dask's: " + err.Error()}
	}
	return h, nil
}

type helloReader struct{ msgpack.Reader }

func (d *helloReader) hello() (h Hello, err error) {
	err = d.each(func(key string) (err error) {
		switch key {
		case "compression":
			if !d.TryNil() {
				h.Compression, err = d.ReadString()
			}
		case "pickle-protocol":
			h.PickleProtocol, err = d.number()
		case "python":
			return d.list(func() error {
				v, err := d.number()
				h.Python = append(h.Python, v)
				return err
			})
		case "millstream":
			h.Millstream = new(comm.PeerInfo)
			return d.millstream(&h)
		case msgpack.Pickled, msgpack.Serialized:
			return errors.New("contains a pickle")
		default:
			return d.Skip()
		}
		return err
	})
	return h, err
}

func (d *helloReader) millstream(h *Hello) error {
	p := h.Millstream
	return d.each(func(key string) (err error) {
		switch key {
		case "v":
			p.Version, err = d.number()
		case "min":
			p.Min, err = d.number()
		case "features":
			return d.list(func() error {
				f, err := d.ReadString()
				p.Features = append(p.Features, f)
				return err
			})
		case "cookie":
			return d.bytes(&h.Invitation)
		case "lines":
			return d.bytes(&h.Lines)
		case "join":
			return d.bytes(&h.Join)
		default:
			return d.Skip()
		}
		return err
	})
}

// bytes reads bytes and keeps a copy.
func (d *helloReader) bytes(into *[]byte) error {
	b, err := d.ReadBytes()
	*into = append([]byte{}, b...)
	return err
}

// each calls f for every key of a map; f reads the value.
func (d *helloReader) each(f func(key string) error) error {
	n, err := d.ReadMapLen()
	for ; n > 0 && err == nil; n-- {
		var key string
		if key, err = d.ReadString(); err == nil {
			err = f(key)
		}
	}
	return err
}

func (d *helloReader) list(f func() error) error {
	n, err := d.ReadArrayLen()
	if n > maxHelloList {
		return fmt.Errorf("list of %d items exceeds %d", n, maxHelloList)
	}
	for ; n > 0 && err == nil; n-- {
		err = f()
	}
	return err
}

func (d *helloReader) number() (int, error) {
	n, err := d.ReadInt()
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = fmt.Errorf("number %d is out of range", n)
	}
	return int(n), err
}
