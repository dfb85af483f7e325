package doctor

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func sampleReport() Report {
	return Report{Findings: []Finding{
		{ID: "a", Severity: OK, Title: "all well", Detail: "not shown"},
		{ID: "b", Severity: Info, Title: "no GPU"},
		{ID: "c", Severity: Warn, Title: "small", Detail: "why it matters", Fix: "make it larger"},
		{ID: "d", Severity: Fail, Title: "gone", Detail: strings.Repeat("word ", 40), Fix: "install <it> & go"},
	}}
}

func TestReportText(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{"✓ all well\n", "· no GPU\n",
		"! small\n    why it matters\n    fix: make it larger\n", "✗ gone\n", "1 ok, 0 not applicable, 1 info, 1 " +
			"warnings, 1 failures\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") || strings.Contains(got, "not shown") {
		t.Errorf("color or detail of an ok finding in\n%s", got)
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > maxWidth {
			t.Errorf("line of %d characters: %q", n, line)
		}
	}
	out.Reset()
	if err := sampleReport().WriteText(&out, true); err != nil ||
		!strings.Contains(out.String(), "\x1b[31m✗\x1b[0m gone") {
		t.Errorf("no color in %q (%v)", out.String(), err)
	}
}

func TestReportJSON(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Worst    Severity
		Findings []Finding
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Worst != Fail || !slices.Equal(got.Findings, sampleReport().Findings) {
		t.Errorf("read back %+v", got)
	}
	if !strings.Contains(out.String(), "install <it> & go") {
		t.Errorf("HTML escapes in %s", out.String())
	}
}

func TestWorst(t *testing.T) {
	if (Report{}).Worst() != OK {
		t.Error("empty report")
	}
	order := []Severity{OK, Info, Warn, Fail}
	for i, s := range order {
		r := Report{}
		for _, f := range order[:i+1] {
			r.Findings = append(r.Findings, Finding{Severity: f})
		}
		slices.Reverse(r.Findings)
		if r.Worst() != s || r.Count(s) != 1 {
			t.Errorf("worst of %v = %s", r.Findings, r.Worst())
		}
	}
}

func TestWrap(t *testing.T) {
	if got := wrap("aa bb ccccccccc d", 5); !slices.Equal(got, []string{"aa bb", "ccccccccc", "d"}) {
		t.Errorf("%q", got)
	}
	if wrap("  ", 5) != nil {
		t.Error("blank text gives lines")
	}
}
