package benchfmt

import "testing"

func TestFigures(t *testing.T) {
	var f Figures
	var s Sink = &f
	if err := s.Add(Figure{Bench: "tasks", Case: "tree", Setting: "tls", Unit: UnitBytes, Ours: 1,
		Better: Lower}); err != nil {
		t.Error(err)
	}
	if err := s.Add(Figure{}); err == nil {
		t.Error("a figure of nothing is taken")
	}
	if err := s.Close(); err != nil || len(f) != 2 || f[0].Case != "tree" {
		t.Errorf("%+v, %v", f, err)
	}
}
