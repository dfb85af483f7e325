package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	daskconfig "go.millstream.dev/config"
)

// cfgScalars are texts on which YAML 1.1, YAML 1.2 and Python differ, and their neighbors.
var cfgScalars = strings.Split(`~|null|Null|NULL|nULL|none|None|true|True|TRUE|tRue|yes|Yes|YES|yEs|y|Y|n|N|no|No|NO|on|On|ON|oN|off|Off|OFF|
0|-0|+0|00|007|017|0o17|-017|08|09|0_7|0_|+12|-12|1_000|_1|1__0|1_|0b101|0b_1|0b|0b2|0x1F|0X1F|0x_f|0xg|-0x10|0b1_0_1|
1e3|1E3|1e+3|1.0e3|1.0e+3|1.0E-3|1.e+3|1.|.5|-.5|+.5|5.|1.5_0|._5|1_0.5|1.5e|1e|.e|.|..|...|12e03|-2E+05|1.5.2|
.inf|-.inf|+.Inf|.INF|.nan|.NaN|.NAN|-.nan|inf|nan|Infinity|NaN|
1:30|0:30|190:20:30|190:20:30.15|1:60|-1:30|1:5|60:00|1:2:3:4|1:30.|1:30._5|1_0:30|
2001-12-14|2001-1-2|2001-13-01|2001-02-30|2001-12-14t21:59:43.10-05:00|2001-12-14 21:59:43.10 -5|2001-12-15 2:59:43.10|2001-12-14T21:59:43Z|2001-12-14T25:00:00Z|2002-12-14 21:59:43 +99|1-1-1|
=|<<|<|abc|a b|12GB|30s|1 GiB|mlx5_0:1|1.2.3|-|--|-x|+|+x|^cuda|tcp,rc|100%|$HOME|99999999999999999999|-99999999999999999999|0x7fffffffffffffffff|
18446744073709551616|9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|1e999|1.0e+999|0.1|1_0_0.0_1|é|日本`, "|")

func cfgYAMLTexts(r *rand.Rand) []string {
	var texts []string
	for _, s := range cfgScalars {
		s = strings.Trim(s, "\n")
		texts = append(texts, "k: "+s, "k: '"+s+"'", "k: \""+s+"\"", "- "+s, "? "+s+"\n: 1", "k: !!str "+s, "k: !!int "+
			s, "k: !!float '"+s+"'", "k: [ "+s+" ]", "k: !!bool "+s, "k: ! "+s)
	}
	texts = append(texts,
		"", "# only a comment\n", "---\n", "---\na: 1\n...\n", "a: 1\n---\nb: 2\n", "%YAML 1.1\n---\na: 1\n",
		"a: 1\na: 2\n",
		"a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n", "a: &x {p: 1}\nb: &y {p: 2, r: 3}\nc: {z: 0, <<: [*x, *y], r: 9}\n",
		"a: &x {p: 1}\nb: &y {<<: *x, q: 1}\nc: {<<: *y}\n", "b: {<<: 1}\n", "b: {<<: [1]}\n",
		"a: {<<: {p: 1}, p: 2}\n", "'<<': 1\n", "a: {'<<': {p: 1}}\n",
		"a: *nope\n", "a: &x [*x]\n", "k: !!set {a, b}\n", "k: !!omap [a: 1, b: 2]\n", "k: !!pairs [a: 1, a: 2]\n",
		"k: !!binary aGVsbG8=\n",
		"k: !!null x\n", "k: !!python/object:os.system x\n", "k: !foo bar\n", "k: !!timestamp '2001-12-14'\n",
		"k: !!seq [1]\n", "k: !!map {a: 1}\n",
		"? [1, 2]\n: 3\n", "? {a: 1}\n: 3\n", "k: |\n  text\n  more\n", "k: >\n  text\n  more\n\n  end\n",
		"k: >-\n  a\n   b\n", "k: 'it''s'\n", "k: \"a\\tb\\u00e9\\x41\"\n",
		"k: a\n b\n  c\n", "k:\n  - 1\n  - - 2\n    - 3\n", "k: [1, [2, {a: b}], ~]\n", "{a: 1, b: [x, y], c: {d: }}\n",
		"{\"a\": 1, \"b\": [true, null, 1.5e+3]}\n",
		"k: {a, b: 1}\n", "k: \"no\"\n", "yes: 1\n", "1: 2\n1.0: 3\ntrue: 4\n", "\t- a\n", "k: [1, 2\n", "k: }\n",
		"a: b: c\n", "k: @x\n", "k: `x`\n", "k: %x\n", "\ufeffk: 1\n", "k: 1 # c\n", "k: a#b\n", "k: a #b\n",
		"a:\n  b:\n    c: 1\n  d: 2\n", "a: 'x\n\n  y'\n", "= : 1\n", "k: \n", "k:\n", "- \n- a\n", "just text\n",
		"12\n", "[]\n",
	)
	for range 400 {
		texts = append(texts, cfgRandomYAML(r, 0))
	}
	return texts
}

// cfgRandomYAML makes a block of keys, lists and cfgScalars.
func cfgRandomYAML(r *rand.Rand, depth int) string {
	var b strings.Builder
	indent := strings.Repeat("  ", depth)
	for i := range 1 + r.IntN(4) {
		fmt.Fprintf(&b, "%sk%d-%d:", indent, depth, i)
		switch n := r.IntN(10); {
		case n < 3 && depth < 4:
			b.WriteString("\n" + cfgRandomYAML(r, depth+1))
		case n < 5:
			b.WriteString("\n")
			for range 1 + r.IntN(3) {
				fmt.Fprintf(&b, "%s- '%s'\n", indent, strings.ReplaceAll(cfgPick(r), "'", "''"))
			}
		case n < 6:
			fmt.Fprintf(&b, " {a: \"%s\", b: [1, x]}\n", strings.ReplaceAll(cfgPick(r), `\`, ``))
		default:
			fmt.Fprintf(&b, " %s\n", cfgPlain(r))
		}
	}
	return b.String()
}

func cfgPick(r *rand.Rand) string { return strings.Trim(cfgScalars[r.IntN(len(cfgScalars))], "\n") }

// cfgPlain picks a scalar that may stand alone after a colon, whatever it is.
func cfgPlain(r *rand.Rand) string {
	alphabet := "0123456789_.:eE+-xob"
	if r.IntN(2) == 0 {
		for {
			if s := cfgPick(r); s != "<<" && s != "=" && s != "-" && !strings.HasPrefix(s, "<") {
				return s
			}
		}
	}
	s := []byte{"0123456789.+"[r.IntN(12)]}
	for range r.IntN(7) {
		s = append(s, alphabet[r.IntN(len(alphabet))])
	}
	return strings.TrimRight(string(s), ":")
}

func TestConfigYAMLAsPyYAML(t *testing.T) {
	var cases []daskCase
	for _, text := range cfgYAMLTexts(rand.New(rand.NewPCG(1, 2))) {
		cases = append(cases, daskCase{Op: "yaml", Text: text})
	}
	cfgCompare(t, cases, func(c daskCase) (any, error) {
		v, err := daskconfig.ParseYAML("test.yaml", []byte(c.Text))
		return cfgEncode(v), err
	})
}

var cfgLiterals = []string{
	"", " ", "1", " 1", "1 ", "\t1", "\n1", "\n 1", "1\n", "1\n2", "1 # c", "# c\n1", "+1", "-1", "- 1", "--1", "+-1",
	"~1", "not 1", "1+1", "1 + 2j", "1-2j", "-1+2j", "1+-2j", "2j", "-2j", "1.5+2.5j", "2j+1", "(1)+2j", "1+(2j)",
	"-(1)", "(-1)+2j", "1+2j+3j",
	"0", "00", "0_0", "01", "017", "0o17", "0O17", "0x1f", "0X_1F", "0b101", "0b12", "1_000", "1__0", "1_", "_1", "1e3",
	"1E3", "1e+3", "1e-3", "1.", ".5", "1.5", "1_0.5_0", "1e999", "-1e999", "09.5", "09", "09e1", "09j", "1j", "1J",
	"1.5j", "0xfg", "1GB", "1.2.3", "1 2",
	"99999999999999999999", "-9223372036854775808", "-9223372036854775809", strings.Repeat("9", 4300),
	strings.Repeat("9", 4301),
	"True", "False", "None", "true", "FALSE", "none", "NULL", "nUll", "yes", "no", "on", "off", "TRUE ", "+True",
	"-None", "set()", "set ( )", "set(1)", "set", "list()", "nan", "inf",
	`"a"`, `'a'`, `'a' 'b'`, `'a'"b"`, `('a' 'b')`, `'a' b'b'`, `b'ab'`, `B"a"`, `rb'\n'`, `Rb'\n'`, `br'\n'`, `r'\n'`, `u'x'`, `ur'x'`, `f'x'`, `f''`, `'''a'''`, `"""a"b"""`, "'a\nb'", "'''a\nb'''", `'a\
b'`, `'\x41\101\u0042\U00000043'`, `'\N{BULLET}x'`, `'\d'`, `'\400'`, `'\x4'`, `'\u12'`, `'\U00110000'`, `b'\u0041'`, `b'\xff\0'`, `b'é'`, `'é'`, `'\`, `'`, `"'"`, `'\''`, `'a'.upper()`, `'%d' % 1`, `'a',`, `'\a\b\f\n\r\t\v\\'`,
	"[]", "[1, 2]", "[1, 2,]", "[,]", "[1 2]", "[1", "1]", "[[1], [2, [3]]]", "()", "(1)", "(1,)", "1,", "1, 2", ",",
	"(1, 2", "((1))", "{}", "{1}", "{1, 2, 1}", "{1: 2}", "{1: 2,}", "{1: 2, 1.0: 3, True: 4}",
	"{'a': [1, {'b': None}]}", "{1: }", "{: 1}", "{1: 2, 3}", "{1, 2: 3}", "{**{}}", "{*[1]}", "[*[1]]", "{(1, 2): 3}",
	"{[1]: 2}", "{[1]}", "{{}: 1}", "{1: {2}}", "[1,\n2]", "(1,\n # c\n 2)", "[1, \\\n2]", "1 \\\n", "{'a':1}['a']",
	"mlx5_0:1", "tcp://127.0.0.1:8786", "eth0", "1GB", "30s", "a.b", "a b", "lambda: 1", "1 if 1 else 2", "1 < 2",
	"1 and 2", "x := 1", "...", "[...]", "1;2", "@", "$", "?", "!", "`1`", "\\", "\x0c1", "é", "1é", "１", "{'x':", "(",
	")", "[1)", "0x", "1e", "1e+", "1jj", "1_j", "0_7",
	strings.Repeat("(", 150) + "1" + strings.Repeat(")", 150), strings.Repeat("[", 90) + strings.Repeat("]", 90),
	"[1]\r\n", "[1,\r2]", "'a\r\nb'", "1\f", "(1\f)",
}

func TestConfigLiteralsAsPython(t *testing.T) {
	texts := append([]string(nil), cfgLiterals...)
	for _, s := range cfgScalars {
		texts = append(texts, strings.Trim(s, "\n"))
	}
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"1", "2.5", "-3", "'a'", "b'x'", "True", "None", "[", "]", "(", ")", "{", "}", ",", ":", " ",
		"+", "-", "4j", "\n", "#", "set()", "0", "_"}
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
	}
	var cases []daskCase
	for _, text := range texts {
		if text == "..." || text == "[...]" || strings.Contains(text, `\N{`) {
			continue // Python's Ellipsis and characters by name: text here
		}
		cases = append(cases, daskCase{Op: "interpret", Text: text})
	}
	cfgCompare(t, cases, func(c daskCase) (any, error) {
		v, err := daskconfig.Interpret(c.Text)
		return cfgEncode(v), err
	})
}

func TestConfigUnitsAsDask(t *testing.T) {
	numbers := []string{"", "0", "1", "100", "5.4", "1e6", "-3", "+2", ".5", "1_000", "1__0", "1e-3", "0x10", "1.2.3"}
	units := []string{"", "B", "b", "k", "kB", "KB", "kiB", "Ki", "M", "MB", "MiB", "mi", "G", "GB", "GiB", "T", "TB",
		"TiB", "P", "PiB", "foos", "iB", "i",
		"s", "ms", "us", "ns", "m", "h", "d", "w", "S", "second", "seconds", "minutes", "Hours", "day", "weeks",
		"millisecond", "microseconds", "min", "sec", "ss", "mss", "hr"}
	var sizes, times []daskCase
	for _, n := range numbers {
		for _, u := range units {
			for _, gap := range []string{"", " "} {
				if n != "1e6" || !strings.HasPrefix(u, "P") { // more than 64 bits
					sizes = append(sizes, daskCase{Op: "bytes", Text: n + gap + u})
				}
				if n != "1e6" || !strings.ContainsAny(u, "dwDW") { // more than 292 years
					times = append(times, daskCase{Op: "time", Text: n + gap + u})
				}
			}
		}
	}
	cfgCompare(t, sizes, func(c daskCase) (any, error) {
		n, err := daskconfig.ParseBytes(c.Text)
		return cfgEncode(n), err
	})
	for i, a := range askDask(t, times) {
		d, err := daskconfig.ParseDuration(times[i].Text)
		if (err != nil) != (a.Error != "") {
			t.Errorf("%q: %v; Python: %s", times[i].Text, err, a.Error)
			continue
		}
		if err != nil {
			continue
		}
		// Python answers in seconds; ours are whole nanoseconds.
		_, want, _ := cfgSame(t, a.Value, nil)
		if got := fmt.Sprintf(`{"f":"%s"}`, cfgBits(d.Seconds())); got != want && !cfgClose(want, d.Seconds()) {
			t.Errorf("%q: %v; Python: %s", times[i].Text, d, want)
		}
	}
}
