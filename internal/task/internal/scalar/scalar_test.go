package scalar

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/pickle"
)

var values = []any{0, 1, 255, 256, 65535, 65536, -1, -129, math.MaxInt32, math.MinInt32, 1 << 31, -1<<31 - 1, 1 << 40,
	-1 << 55,
	math.MaxInt64, math.MinInt64, 0.0, -2.5, math.Inf(1), math.MaxFloat64, "", "text", "é\x00", strings.Repeat("x",
		255),
	strings.Repeat("y", 256), strings.Repeat("long ", 70000), true, false, nil}

// into decodes a pickle as each of the types.
func into(p []byte) map[string]any {
	out := map[string]any{}
	var i int
	if Into(p, &i) {
		out["int"] = i
	}
	var n int64
	if Into(p, &n) {
		out["int64"] = int(n)
	}
	var f float64
	if Into(p, &f) {
		out["float64"] = f
	}
	var s string
	if Into(p, &s) {
		out["string"] = s
	}
	var b bool
	if Into(p, &b) {
		out["bool"] = b
	}
	var other []byte
	if Into(p, &other) {
		out["[]uint8"] = other
	}
	return out
}

func TestInto(t *testing.T) {
	for _, v := range values {
		p, err := pickle.Dump(v)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{fmt.Sprintf("%T", v): v}
		switch v.(type) {
		case nil:
			want = map[string]any{}
		case int:
			want["int64"] = v
		}
		if got := into(p); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%.40v: got %.80v, want %.80v", v, got, want)
		}
	}
}

// TestOpcodes decodes the opcodes that Python writes, in each protocol.
func TestOpcodes(t *testing.T) {
	for _, c := range []struct {
		p    string
		want any
	}{
		{"\x80\x04K\x07.", 7}, {"\x80\x05K\x07.", 7}, {"\x80\x04M\x01\x02.", 513}, {"\x80\x04J\xff\xff\xff\xff.", -1},
		{"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x07.", 7}, {"\x80\x04\x8a\x01\xff.", -1},
		{"\x80\x04\x8a\x02\x00\x80.", -32768}, {"\x80\x04\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", math.MinInt64},
		{"\x80\x04G?\xf8\x00\x00\x00\x00\x00\x00.", 1.5}, {"\x80\x04\x8c\x01x.", "x"},
		{"\x80\x04\x8c\x01x\x94.", "x"}, {"\x80\x04X\x01\x00\x00\x00x\x94.", "x"}, {"\x80\x04\x88.", true},
		{"\x80\x04\x89.", false},
		// Opcodes of the general decoder.
		{"", nil}, {"\x80", nil}, {"\x80\x04", nil}, {"\x80\x03K\x07.", nil}, {"\x80\x06K\x07.", nil},
		{"K\x07.", nil}, {"\x80\x04K\x07", nil}, {"\x80\x04K\x07..", nil}, {"\x80\x04\x8a\x00.", nil},
		{"\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", nil}, {"\x80\x04\x8c\x02x.", nil},
		{"\x80\x04\x8c\x01\xff.", nil}, {"\x80\x04X\xff\xff\xff\xffx.", nil}, {"\x80\x04\x8c\x01x\x94\x94.", nil},
		{"\x80\x04\x88", nil}, {"\x80\x04\x88N.", nil}, {"\x80\x04N.", nil}, {"\x80\x04\x95.", nil},
	} {
		var got any
		for _, v := range into([]byte(c.p)) {
			got = v
		}
		if got != c.want {
			t.Errorf("%q: got %v, want %v", c.p, got, c.want)
		}
	}
}

// Truncated or changed bytes are rejected, or decoded as package pickle does.
func TestIntoAgrees(t *testing.T) {
	for _, v := range values {
		p, err := pickle.Dump(v)
		if err != nil {
			t.Fatal(err)
		}
		p = p[:min(len(p), 40)]
		for i := range p {
			if got := into(p[:i]); len(got) > 0 {
				t.Errorf("%d bytes of %.40v: got %v, want nothing", i, v, got)
			}
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff, p[i] + 1, p[i] - 1} {
				changed := append([]byte(nil), p...)
				changed[i] = b
				for as, got := range into(changed) {
					want, err := pickle.Load(changed, nil, pickle.Limits{})
					if text := fmt.Sprint(got); err != nil || fmt.Sprint(want) != text {
						t.Errorf("% x as %s: got %v, and pickle.Load %v, %v", changed, as, got, want, err)
					}
				}
			}
		}
	}
}
