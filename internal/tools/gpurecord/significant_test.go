package gpurecord

import (
	"bytes"
	"testing"
)

func TestSignificant(t *testing.T) {
	const base = "//go:build cgo\n\n// Package p is one.\npackage p\n\n// #define ONE 1\nimport \"C\"\n\n" +
		"//go:noinline\nfunc f() string { return \"// text\" } // end\n"
	for _, c := range []struct {
		name, text string
		same       bool
	}{
		{"other comments", "//go:build cgo\n\n// Package p is two.\npackage p\n\n// #define ONE 1\nimport \"C\"\n\n" +
			"// f is new.\n//\n//go:noinline\nfunc f() string {\n\treturn /* here */ \"// text\" }\n", true},
		{"text", "//go:build cgo\n\npackage p\n\n// #define ONE 1\nimport \"C\"\n\n" +
			"//go:noinline\nfunc f() string { return \"// other\" }\n", false},
		{"preamble", "//go:build cgo\n\npackage p\n\n// #define ONE 2\nimport \"C\"\n\n" +
			"//go:noinline\nfunc f() string { return \"// text\" }\n", false},
		{"build tag", "//go:build !cgo\n\npackage p\n\n// #define ONE 1\nimport \"C\"\n\n" +
			"//go:noinline\nfunc f() string { return \"// text\" }\n", false},
		{"directive", "//go:build cgo\n\npackage p\n\n// #define ONE 1\nimport \"C\"\n\n" +
			"func f() string { return \"// text\" }\n", false},
	} {
		if same := bytes.Equal(significant([]byte(c.text)), significant([]byte(base))); same != c.same {
			t.Errorf("%s: same = %t, want %t", c.name, same, c.same)
		}
	}
	group := func(n string) []byte {
		return significant([]byte("package p\n\nimport (\n\t// #define ONE " + n + "\n\t\"C\"\n)\n"))
	}
	if bytes.Equal(group("1"), group("2")) {
		t.Errorf("preamble in a group of imports: got %q for both", group("1"))
	}
	const broken = "package p // no Go\n}"
	if got := significant([]byte(broken)); string(got) != broken {
		t.Errorf("invalid file: got %q, want %q", got, broken)
	}
}
