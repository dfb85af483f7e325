package taskbench

import "testing"

// What is split and joined again are the same rows, each where it belongs.
func TestRows(t *testing.T) {
	const parts, rows = 7, 5000
	var in, out summary
	blocks := make([][][]byte, parts)
	for p := range int64(3) {
		data := makeRows(p, rows, 42)
		s, err := summarize(data, -1, parts)
		if err != nil {
			t.Fatal(err)
		}
		in = in.plus(s)
		for i, b := range splitRows(data, parts) {
			blocks[i] = append(blocks[i], b)
		}
	}
	for i := range parts {
		s, err := summarize(joinRows(blocks[i]), i, parts)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rows < rows*3/parts*8/10 {
			t.Errorf("partition %d has %d rows of %d", i, s.Rows, 3*rows)
		}
		out = out.plus(s)
	}
	if in != out || in.Rows != 3*rows {
		t.Errorf("%+v went in, %+v came out", in, out)
	}
	if _, err := summarize(make([]byte, rowBytes+1), -1, 1); err == nil {
		t.Error("half a row is taken")
	}
	wrong := makeRows(0, 100, 1)
	if _, err := summarize(wrong, 0, parts); err == nil {
		t.Error("rows in the wrong partition are taken")
	}
}
