package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestHello(t *testing.T) {
	want := &Hello{
		Version: HandshakeVersion, Min: HandshakeMinVersion, Features: 3, Number: 0x1122334455667788, Name: "worker 7",
		Major: 1, Minor: 21, Home: 42, Address: []byte("address"), Net: []byte("net"),
	}
	b := want.Append([]byte("x"))[1:]
	got, err := ReadHello(bytes.NewReader(b), 100)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	for n := range b {
		if _, err := ReadHello(bytes.NewReader(b[:n]), 100); !errors.Is(err, io.EOF) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut off after %d of %d bytes: %v", n, len(b), err)
		}
	}
	long := *want
	long.Name = strings.Repeat("n", 2*maxPeerName)
	if got, err := ReadHello(bytes.NewReader(long.Append(nil)), 100); err != nil || len(got.Name) != maxPeerName {
		t.Errorf("a long name: %+v, %v", got, err)
	}
}

func TestHelloRefused(t *testing.T) {
	good := Hello{Version: HandshakeVersion, Min: HandshakeMinVersion, Address: []byte("address")}
	for _, tc := range []struct {
		about, says string
		change      func(b []byte) []byte
		limit       int
	}{
		{"another program", "no Millstream", func(b []byte) []byte { return append([]byte("HTTP"), b[4:]...) }, 100},
		{"too new", "upgrade the older one", func([]byte) []byte {
			h := good
			h.Version, h.Min = HandshakeVersion+2, HandshakeVersion+1
			return h.Append(nil)
		}, 100},
		{"too old", "upgrade the older one", func([]byte) []byte {
			h := good
			h.Version, h.Min = HandshakeMinVersion-1, 0
			return h.Append(nil)
		}, 100},
		{"address beyond the limit", "announces", func(b []byte) []byte { return b }, 3},
	} {
		b := tc.change(good.Append(nil))
		if _, err := ReadHello(bytes.NewReader(b), tc.limit); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error with %q", tc.about, err, tc.says)
		}
	}
}

func TestCount(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCount(&b, 'G', 1<<40); err != nil {
		t.Fatal(err)
	}
	again := bytes.Clone(b.Bytes())
	if n, err := ReadCount(&b, 'G'); n != 1<<40 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if _, err := ReadCount(bytes.NewReader(again), 'P'); err == nil {
		t.Error("a count of another kind was taken")
	}
	if _, err := ReadCount(bytes.NewReader(again[:5]), 'G'); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a count cut off: %v", err)
	}
}
