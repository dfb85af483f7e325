package pyproc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

func joined(b [][]byte) []byte { return bytes.Join(b, nil) }

func TestMessageRoundTrip(t *testing.T) {
	call, err := packCall(7, "op", map[string]any{"x": 1}, [][]byte{[]byte("one"), nil, []byte("three")})
	if err != nil {
		t.Fatal(err)
	}
	all := joined(call)
	all = append(all, joined(packAnswer(8, []any{1, "two"}, [][]byte{{9}}, nil))...)
	all = append(all, joined(packAnswer(9, nil, nil, errors.New("it fails \xff")))...)
	all = append(all, joined(packAnswer(10, struct{}{}, nil, nil))...)
	note, _ := packCall(0, "note", nil, nil)
	all = append(all, joined(note)...)
	r := bufio.NewReader(bytes.NewReader(all))
	h, frames, err := readMessage(r, 1<<20)
	if err != nil || h.id != 7 || h.op != "op" || len(frames) != 3 || string(frames[2]) != "three" ||
		len(frames[1]) != 0 {
		t.Errorf("%+v %q %v", h, frames, err)
	}
	h, frames, err = readMessage(r, 1<<20)
	if err != nil || !h.answered || h.id != 8 || len(frames) != 1 || string(h.body) != "\x92\x01\xa3two" {
		t.Errorf("%+v %q %v", h, frames, err)
	}
	for _, text := range []string{"it fails \uFFFD", "reply cannot be encoded"} {
		h, _, err = readMessage(r, 1<<20)
		if err != nil || !h.failed || !strings.Contains(h.raised.Message, text) {
			t.Errorf("%+v %v", h.raised, err)
		}
	}
	if h, _, err = readMessage(r, 1<<20); err != nil || h.hasID || h.op != "note" {
		t.Errorf("%+v %v", h, err)
	}
	if _, _, err = readMessage(r, 1<<20); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: got %v, want EOF", err)
	}
	for i := range all {
		r := bufio.NewReader(bytes.NewReader(all[:i]))
		for {
			if _, _, err = readMessage(r, 1<<20); err != nil {
				break
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// Memory is allocated for received bytes, not for announced ones.
func TestPromises(t *testing.T) {
	b := binary.LittleEndian.AppendUint64(nil, 1)
	b = binary.LittleEndian.AppendUint64(b, 1<<40)
	b = append(b, make([]byte, 1000)...)
	if _, _, err := readMessage(bufio.NewReader(bytes.NewReader(b)), 1<<62); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want ErrUnexpectedEOF", err)
	}
	allocated := testing.AllocsPerRun(1, func() {
		_, _, _ = readMessage(bufio.NewReader(bytes.NewReader(b)), 1<<62)
	})
	t.Logf("%v allocations", allocated)
	big := make([]byte, 3*firstRead)
	for i := range big {
		big[i] = byte(i >> 10)
	}
	got, err := readFrame(bytes.NewReader(big), int64(len(big)))
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("a large frame is read as %d bytes, %v", len(got), err)
	}
}

// FuzzMessage decodes arbitrary messages of a child.
func FuzzMessage(f *testing.F) {
	call, _ := packCall(1, "op", map[string]any{"x": []any{1}}, [][]byte{[]byte("f")})
	f.Add(joined(call))
	f.Add(joined(packAnswer(1, "x", nil, nil)))
	f.Add(joined(packAnswer(1, nil, nil, errors.New("x"))))
	e := msgpack.AppendMapHeader(nil, 2)
	e = msgpack.AppendInt(msgpack.AppendString(e, "id"), 1)
	e, _ = msgpack.Append(msgpack.AppendString(e, "error"), map[string]any{"type": "E", "message": "m",
		"traceback": "t", "exception": []byte{1}, "more": nil})
	f.Add(joined(pack(e, nil)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			h, _, err := readMessage(r, 1<<20)
			if err != nil {
				return
			}
			if h.op == "" && h.failed == h.answered {
				t.Fatalf("%+v is no message", h)
			}
			if h.failed && h.raised.Error() == "" && h.raised.Type != "" {
				t.Fatal("an exception without a text")
			}
		}
	})
}
