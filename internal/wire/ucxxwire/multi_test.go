package ucxxwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readHex reads a recorded message from testdata; lines that start with # say how
// it was made.
func readHex(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	return unhex(t, digits.String())
}

func decodeAll(d *MultiDecoder, b []byte) error {
	for {
		next, err := d.Add(b[:min(len(b), MultiHeaderSize)])
		if err != nil || !next {
			return err
		}
		b = b[MultiHeaderSize:]
	}
}

func TestMultiHeaderRecorded(t *testing.T) {
	hundredAndOne := make([]Frame, 101)
	for i := range hundredAndOne {
		hundredAndOne[i].Size = int64(i)
	}
	for _, c := range []struct {
		file   string
		frames []Frame
	}{
		{"multi-3.hex", []Frame{{Size: 3}, {Size: 0}, {Size: 70000}}},
		{"multi-101.hex", hundredAndOne},
	} {
		want := readHex(t, c.file)
		got, err := AppendMultiHeaders(nil, c.frames)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: encoding differs (%v)", c.file, err)
		}
		var d MultiDecoder
		if err := decodeAll(&d, want); err != nil || !slices.Equal(d.Frames(), c.frames) {
			t.Errorf("%s: decoded %d frames, %v", c.file, len(d.Frames()), err)
		}
	}
}

func TestMultiHeaderRoundTrip(t *testing.T) {
	if MultiHeaderSize != 1209 {
		t.Fatalf("MultiHeaderSize = %d", MultiHeaderSize)
	}
	var d MultiDecoder
	for _, n := range []int{1, 2, 99, 100, 101, 200, 201, 1000} {
		frames := make([]Frame, n)
		var total int64
		for i := range frames {
			frames[i] = Frame{Size: int64(i * i), CUDA: i%3 == 1}
			total += frames[i].Size
		}
		b, err := AppendMultiHeaders([]byte{1, 2}, frames)
		if err != nil {
			t.Fatal(err)
		}
		b = b[2:]
		if len(b) != MultiHeaders(n)*MultiHeaderSize {
			t.Errorf("%d frames: %d bytes", n, len(b))
		}
		d.Reset()
		if err := decodeAll(&d, b); err != nil || !slices.Equal(d.Frames(), frames) || d.TotalBytes() != total {
			t.Errorf("%d frames: decoded %d frames of %d bytes, %v", n, len(d.Frames()), d.TotalBytes(), err)
		}
	}
}

func TestMultiHeaderTakesAnyNonZeroAsCUDA(t *testing.T) {
	b, _ := AppendMultiHeaders(nil, []Frame{{Size: 1}})
	binary.NativeEndian.PutUint32(b[multiCUDAOff:], 0x80000000)
	var d MultiDecoder
	if _, err := d.Add(b); err != nil || !d.Frames()[0].CUDA {
		t.Errorf("got %+v, %v", d.Frames(), err)
	}
}

func TestMultiHeaderRefuses(t *testing.T) {
	good, _ := AppendMultiHeaders(nil, []Frame{{Size: 10}, {Size: 20}})
	with := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for _, c := range []struct {
		name, field string
		limits      MultiLimits
		in          []byte
		limit       bool
	}{
		{"empty", "length", MultiLimits{}, nil, false},
		{"short", "length", MultiLimits{}, good[:1208], false},
		{"long", "length", MultiLimits{}, append(bytes.Clone(good), 0), false},
		{"next", "next", MultiLimits{}, with(func(b []byte) { b[0] = 2 }), false},
		{"too many in one", "frames", MultiLimits{}, with(func(b []byte) { b[1] = 101 }), false},
		{"huge count", "frames", MultiLimits{}, with(func(b []byte) { b[8] = 0xff }), false},
		{"no frames", "frames", MultiLimits{}, with(func(b []byte) { b[1] = 0 }), false},
		{"no frames but next", "frames", MultiLimits{}, with(func(b []byte) { b[0], b[1] = 1, 0 }), false},
		{"size over 2^63", "size", MultiLimits{}, with(func(b []byte) { b[multiSizesOff+7] = 0x80 }), false},
		{"sum overflows", "size", MultiLimits{MaxBytes: math.MaxInt64}, with(func(b []byte) {
			binary.NativeEndian.PutUint64(b[multiSizesOff:], math.MaxInt64)
		}), true},
		{"frame limit", "frames", MultiLimits{MaxFrames: 1}, good, true},
		{"byte limit", "size", MultiLimits{MaxBytes: 29}, good, true},
		{"default byte limit", "size", MultiLimits{}, with(func(b []byte) {
			binary.NativeEndian.PutUint64(b[multiSizesOff:], DefaultMaxBytes)
		}), true},
	} {
		d := MultiDecoder{Limits: c.limits}
		_, err := d.Add(c.in)
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || errors.Is(err, ErrLimit) != c.limit {
			t.Errorf("%s: got %v, want an error on field %s (limit: %v)", c.name, err, c.field, c.limit)
		}
		if _, again := d.Add(good); again != err {
			t.Errorf("%s: the decoder went on after the error: %v", c.name, again)
		}
	}
	d := MultiDecoder{Limits: MultiLimits{MaxFrames: 2, MaxBytes: 30}}
	if _, err := d.Add(good); err != nil {
		t.Errorf("message at its limits: %v", err)
	}
	if _, err := d.Add(good); err == nil {
		t.Error("a header after the last one was taken")
	}
}

func TestMultiDecoderBoundsAChain(t *testing.T) {
	one, _ := AppendMultiHeaders(nil, []Frame{{Size: 0}})
	one[0] = 1 // one empty frame per header, and always another header
	var d MultiDecoder
	for i := 0; ; i++ {
		if i > DefaultMaxFrames {
			t.Fatal("an endless chain was taken")
		}
		if _, err := d.Add(one); err != nil {
			if i != DefaultMaxFrames || !errors.Is(err, ErrLimit) {
				t.Errorf("chain ended after %d headers with %v", i, err)
			}
			return
		}
	}
}

func TestAppendMultiHeadersRefuses(t *testing.T) {
	for _, frames := range [][]Frame{nil, {}, {{Size: 1}, {Size: -1}}} {
		b, err := AppendMultiHeaders([]byte{1}, frames)
		var fe *FieldError
		if !errors.As(err, &fe) || len(b) != 1 {
			t.Errorf("%v: got %d bytes, %v", frames, len(b), err)
		}
	}
}
