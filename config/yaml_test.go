package config

import (
	"fmt"
	"strings"
	"testing"
)

// What no configuration holds is refused before it costs anything.
func TestYAMLBounds(t *testing.T) {
	var bomb, merge strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	merge.WriteString("a0: &a0 {k: 1}\n")
	for i := 1; i < 12; i++ {
		uses := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", ")
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, uses)
		fmt.Fprintf(&merge, "a%d: &a%d {<<: [%s]}\n", i, i, uses)
	}
	for _, c := range []struct{ name, text, want string }{
		{"size", strings.Repeat("#", maxFile+1), "exceeds the limit"},
		{"depth of lists", "a: " + strings.Repeat("[", 150) + strings.Repeat("]", 150), "levels"},
		{"depth of maps", "a: " + strings.Repeat("{b: ", 150) + "1" + strings.Repeat("}", 150), "levels"},
		{"far too deep", strings.Repeat("[", 20000), ""},
		{"alias bomb", bomb.String(), "aliases count"},
		{"merge bomb", merge.String(), "aliases count"},
		{"alias of itself", "a: &x {b: *x}\n", "holds itself"},
		{"merge of itself", "a: &x {<<: *x}\n", "holds itself"},
		{"digits", "a: " + strings.Repeat("9", 5000), "too long"},
		{"not UTF-8", "a: \xff", "UTF-8"},
		{"second document", "a: 1\n---\nb: 1\n", "one document"},
		{"Python tag", "a: !!python/object/apply:os.system [x]\n", "not allowed"},
	} {
		v, err := ParseFile("f.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.yaml") {
			t.Errorf("%s: %v, %v", c.name, v.Len(), err)
		}
	}
}

func TestFileErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: 2\nyes: 3\n":      "f.yaml:3: key true is a boolean in YAML, and keys are text; write it in quotes",
		"a: 1\nb: !!int x\n":        `f.yaml:2: "x" is not an integer: "x" is not an integer`,
		"a:\n  b: =\n":              `f.yaml:2: "=" has a special meaning; write "=" in quotes`,
		"a: 1\n[\n":                 "f.yaml:2: ",
		"- 1\n":                     "f.yaml:1: the top of a configuration file must be keys with values, not a list",
		"a: {[1]: 2}\n":             "f.yaml:1: a list cannot be a key",
		"a: 1\nb: 2001-02-31\n":     `f.yaml:2: "2001-02-31" is not a date or time of day`,
		"a: {<<: [1]}\n":            "f.yaml:1: << merges maps only",
		"a: {<<: 1}\n":              "f.yaml:1: << merges a map or a list of maps",
		"a: !!pairs [1]\n":          "f.yaml:1: each item of !!pairs is one key with its value",
		"a: !!foo {b: 1}\n":         "f.yaml:1: tag !!foo is not allowed on a map",
		"a: !bar [1]\n":             "f.yaml:1: tag !bar is not allowed on a list",
		"a: !!binary 'a'\n":         "f.yaml:1: !!binary: ",
		"a: !!bool 7\n":             `f.yaml:1: "7" is not a boolean`,
		"a: 2001-01-01 1:2:3 +99\n": `f.yaml:1: "2001-01-01 1:2:3 +99" `,
	} {
		if _, err := ParseFile("f.yaml", []byte(text)); text != "a: 2001-01-01 1:2:3 +99\n" &&
			(err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Every value knows its line, also through merges, lists and JSON.
func TestLines(t *testing.T) {
	m, err := ParseFile("f.yaml", []byte("a: 1\nb:\n  c: &x\n    d: 2\n  e:\n    <<: *x\n    f: 3\n\"j\": {\"k\": "+
		"[1,\n  2], \"l\": 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for key, line := range map[string]int{"a": 1, "b": 2, "b.c": 3, "b.c.d": 4, "b.e.d": 4, "b.e.f": 7, "j.k": 8,
		"j.l": 9} {
		e, ok := lookup(m, key)
		if !ok || e.Source.Line != line || e.Source.String() != fmt.Sprintf("f.yaml:%d", line) {
			t.Errorf("%s: %v at %v, want line %d", key, e.Value, e.Source, line)
		}
	}
}

func TestFormatReadsBack(t *testing.T) {
	for _, text := range []string{
		"a: 1\nb: 1.5\nc: text\nd: 'yes'\ne: [1, null, true, '', ' x', 'a: b', '#']\nf: {g: .inf, h: -.inf, i: " +
			"'1'}\nj: 1.0e+300\nk: 99999999999999999999\nl: '- x'\nm: 2001-12-14\nn: 2001-12-14T21:59:43.5Z\no: " +
			"\"a\\nb\\t\\\"c\\\"\"\np: 1.0\nq: 'x:'\n",
	} {
		v, err := ParseYAML("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseYAML("f", []byte(Format(v)))
		if err != nil || !equal(v, back) {
			t.Errorf("%s\n%s\n%v", Format(v), Format(back), err)
		}
	}
}
