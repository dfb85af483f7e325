package handshake_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/wire"
)

func parseHello(b []byte, more ...[]byte) (handshake.Hello, error) {
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
	for _, f := range more {
		m.Frames = append(m.Frames, wire.HeapFrame(f))
	}
	return handshake.Parse(m)
}

// pythonHello is the body that Python 3.11.7 with distributed 2026.7.1 sends.
const pythonHello = "83ab636f6d7072657373696f6ec0a6707974686f6e93030b07af7069636b6c652d70726f746f636f6c05"

func TestHelloOfPython(t *testing.T) {
	b, err := hex.DecodeString(pythonHello)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHello(b)
	if err != nil {
		t.Fatal(err)
	}
	want := handshake.Hello{PickleProtocol: 5, Python: []int{3, 11, 7}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %+v", h)
	}
	if !bytes.Equal(h.Append(nil), b) {
		t.Errorf("written again it is %x", h.Append(nil))
	}
}

func TestHelloRoundTrip(t *testing.T) {
	for _, features := range [][]string{nil, {"am", "credits"}} {
		for _, invitation := range [][]byte{nil, {}, bytes.Repeat([]byte{7}, 600)} {
			for _, compression := range []string{"", "lz4", "auto"} {
				h, err := handshake.New(compression, false, invitation, features...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := parseHello(h.Append(nil))
				if err != nil || !reflect.DeepEqual(got, h) {
					t.Errorf("%+v became %+v, %v", h, got, err)
				}
			}
		}
	}
	if h, _ := handshake.New("auto", true, nil); h.Compression != "" {
		t.Errorf("compression on one host: %q", h.Compression)
	}
	if _, err := handshake.New("rar", false, nil); err == nil ||
		!strings.Contains(err.Error(), "distributed.comm.compression") {
		t.Errorf("an unknown compression: %v", err)
	}
}

func TestHelloRefused(t *testing.T) {
	deep := append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x91}, 60_000)...)
	for name, b := range map[string]string{
		"empty":           "",
		"no map":          "\x93\x01\x02\x03",
		"bomb":            "\xdf\xff\xff\xff\xff",
		"array bomb":      "\x81\xa1x\xdd\xff\xff\xff\xff",
		"string bomb":     "\x81\xdb\xff\xff\xff\xff",
		"deep":            string(deep),
		"extension":       "\x81\xa1x\xd4\x01\x02",
		"pickle":          "\x81\xab__Pickled__\x01",
		"serialized":      "\x81\xae__Serialized__\x01",
		"more":            "\x80\x80",
		"key of a number": "\x81\x01\x01",
		"protocol":        "\x81\xafpickle-protocol\xa15",
		"negative":        "\x81\xafpickle-protocol\xff",
		"long version":    "\x81\xa6python\xdc\x00\x64" + strings.Repeat("\x01", 100),
		"features":        "\x81\xaamillstream\x81\xa8features\xa1x",
		"cookie":          "\x81\xaamillstream\x81\xa6cookie\xa1x",
	} {
		_, err := parseHello([]byte(b))
		var bad *comm.HandshakeError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, _ := hex.DecodeString(pythonHello)
	if _, err := parseHello(b, []byte("pickle")); err == nil || !strings.Contains(err.Error(), "pickle") {
		t.Errorf("a hello with further frames: %v", err)
	}
}

func TestNegotiate(t *testing.T) {
	our := func() handshake.Hello { h, _ := handshake.New("lz4", false, nil, "am", "x"); return h }
	for _, c := range []struct {
		remote handshake.Hello
		want   comm.Info
	}{
		{handshake.Hello{PickleProtocol: 4, Python: []int{3, 12, 0}},
			comm.Info{PickleProtocol: 4, Python: []int{3, 12, 0}}},
		{handshake.Hello{PickleProtocol: 9, Compression: "lz4"}, comm.Info{PickleProtocol: 5, Compression: "lz4"}},
		{handshake.Hello{PickleProtocol: 5, Compression: "zstd"}, comm.Info{PickleProtocol: 5}},
		{
			handshake.Hello{PickleProtocol: 5, Millstream: &comm.PeerInfo{Version: 9, Min: 1,
				Features: []string{"y", "am"}}},
			comm.Info{PickleProtocol: 5, Millstream: &comm.PeerInfo{Version: 1, Min: 1, Features: []string{"am"}}},
		},
	} {
		got, err := handshake.Negotiate(our(), c.remote)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("with %+v: %+v, %v", c.remote, got, err)
		}
	}
	for _, bad := range []handshake.Hello{
		{}, {PickleProtocol: 5, Millstream: &comm.PeerInfo{Version: 9, Min: 8}},
		{PickleProtocol: 5, Millstream: &comm.PeerInfo{}},
	} {
		var refused *comm.HandshakeError
		if _, err := handshake.Negotiate(our(), bad); !errors.As(err, &refused) {
			t.Errorf("with %+v: %v", bad, err)
		}
	}
}

// scripted is a peer that answers with what it is told.
type scripted struct {
	answer   []byte
	readErr  error
	writeErr error
	wrote    *wire.Message
}

func (s *scripted) Write(_ context.Context, m *wire.Message) error { s.wrote = m; return s.writeErr }
func (s *scripted) Read(context.Context) (*wire.Message, error) {
	if s.readErr != nil {
		return nil, s.readErr
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(s.answer)}}, nil
}

func TestHandshake(t *testing.T) {
	hello, _ := handshake.New("", true, nil)
	good, _ := hex.DecodeString(pythonHello)
	oops, broken := errors.New("oops"), errors.New("broken")
	for name, c := range map[string]struct {
		peer scripted
		want error
	}{
		"good":                  {scripted{answer: good}, nil},
		"read fails":            {scripted{readErr: oops}, oops},
		"write fails":           {scripted{answer: good, writeErr: broken}, broken},
		"both fail":             {scripted{readErr: oops, writeErr: broken}, broken},
		"refused, write failed": {scripted{answer: []byte{0x80}, writeErr: broken}, broken},
	} {
		info, remote, err := handshake.Do(t.Context(), &c.peer, hello)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (info.PickleProtocol != 5 || len(remote.Python) != 3 ||
			!bytes.Equal(c.peer.wrote.Body(), hello.Append(nil))) {
			t.Errorf("%s: %+v, %+v", name, info, remote)
		}
	}
	var bad *comm.HandshakeError
	if _, _, err := handshake.Do(t.Context(), &scripted{answer: []byte("HTTP/1.1 400 Bad Request")},
		hello); !errors.As(err, &bad) {
		t.Errorf("another protocol: %v", err)
	}
}

func FuzzHello(f *testing.F) {
	b, _ := hex.DecodeString(pythonHello)
	f.Add(b)
	h, _ := handshake.New("lz4", false, []byte("cookie"), "a", "b")
	f.Add(h.Append(nil))
	f.Add([]byte("\xdf\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		again, err := parseHello(h.Append(nil))
		// An empty list and none are the same.
		if err != nil || again.PickleProtocol != h.PickleProtocol || again.Compression != h.Compression ||
			len(again.Python) != len(h.Python) {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
		_, _ = handshake.Negotiate(h, again)
	})
}

// A Millstream peer gets frames whole; Python gets Dask's shards.
func TestEncodeOptions(t *testing.T) {
	python := comm.Info{Compression: "lz4", PickleProtocol: 4}
	if o := python.EncodeOptions(); o.Compression != "lz4" || o.PickleProtocol != 4 || o.ShardSize != 0 {
		t.Errorf("to Python: %+v", o)
	}
	if o := (comm.Info{Millstream: &comm.PeerInfo{Version: 1}}).EncodeOptions(); o.ShardSize < 1<<40 {
		t.Errorf("to Millstream: %+v", o)
	}
}

func TestHelloWithLines(t *testing.T) {
	h, err := handshake.New("", false, []byte("cookie"), "staged-1")
	if err != nil {
		t.Fatal(err)
	}
	h.Lines, h.Join = []byte("token"), []byte("token of the other")
	got, err := parseHello(h.Append(nil))
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v became %+v, %v", h, got, err)
	}
}
