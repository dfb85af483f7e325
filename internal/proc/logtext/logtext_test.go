package logtext

import "testing"

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä text\t":  "plain ä text\t",
		"a\nb\r\x1b[31m":  `a\nb\r\x1b[31m`,
		"\xff\xfe bad":    `\xff\xfe bad`,
		"x\u202ey\u2028":  `x\u202ey\u2028`,
		"replaced \ufffd": "replaced \ufffd",
		"":                "",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("OneLine(%q) is %q, want %q", in, got, want)
		}
	}
}
