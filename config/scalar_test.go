package config

import (
	"fmt"
	"testing"
)

func typedText(v any) string { return fmt.Sprintf("%T %s", v, Format(v)) }

// The scalars on which YAML's versions and libraries differ, as PyYAML reads them. The
// interoperation tests hold many more against PyYAML itself.
func TestScalars(t *testing.T) {
	for text, want := range map[string]string{
		"~": "<nil> null", "null": "<nil> null", "": "<nil> null", "none": "string none", "nULL": "string nULL",
		"yes": "bool true", "Off": "bool false", "ON": "bool true", "y": "string y", "tRue": "string tRue",
		"0": "int64 0", "-0": "int64 0", "017": "int64 15", "-017": "int64 -15", "0o17": "string 0o17",
		"08": "string 08", "0_7": "int64 7", "1_000": "int64 1000", "+12": "int64 12",
		"0x1F": "int64 31", "0X1F": "string 0X1F", "0b101": "int64 5", "-0x10": "int64 -16",
		"1e3": "string 1e3", "1.0e3": "string 1.0e3", "1.0e+3": "float64 1000.0", "1.": "float64 1.0",
		".5": "float64 0.5", "-.5": `string "-.5"`, "1_0.5": "float64 10.5", "1.0e+999": "float64 .inf",
		".inf": "float64 .inf", "-.Inf": "float64 -.inf", ".NaN": "float64 .nan", "inf": "string inf",
		"1:30": "int64 90", "0:30": "string 0:30", "-1:30": "int64 -90", "190:20:30": "int64 685230",
		"190:20:30.15": "float64 685230.15", "1:60": "string 1:60",
		"9223372036854775807": "int64 9223372036854775807", "9223372036854775808": "*big.Int 9223372036854775808",
		"-9223372036854775808":    "int64 -9223372036854775808",
		"99999999999999999999:00": "*big.Int 5999999999999999999940",
		"2001-12-14":              "config.Date 2001-12-14", "2001-1-2": "string 2001-1-2",
		"2001-12-14 21:59:43.10 -5": "config.Time 2001-12-14T21:59:43.1-05:00",
		"2001-12-15 2:59:43":        "config.Time 2001-12-15T02:59:43",
		"2001-12-14T21:59:43Z":      "config.Time 2001-12-14T21:59:43Z",
	} {
		v, err := scalar(plainTag(text), text)
		if err != nil || typedText(v) != want {
			t.Errorf("%q: %s, %v, want %s", text, typedText(v), err, want)
		}
	}
	for _, text := range []string{"0b_", "0x_", "2001-02-30", "2001-01-01 24:00:00", "2001-01-01 1:02:03 +24"} {
		if v, err := scalar(plainTag(text), text); err == nil {
			t.Errorf("%q: %s, and PyYAML fails", text, typedText(v))
		}
	}
}

func TestLiterals(t *testing.T) {
	for text, want := range map[string]string{
		"True": "bool true", "true": "bool true", "FALSE": "bool false", "None": "<nil> null", "NULL": "<nil> null",
		"no": `string "no"`, "": `string ""`,
		"12": "int64 12", "-12": "int64 -12", "--12": "string \"--12\"", "017": `string "017"`, "0o17": "int64 15",
		"0x_1f": "int64 31", "1_000": "int64 1000", "1__0": `string "1__0"`, "1e3": "float64 1000.0",
		"09.5":                 "float64 9.5",
		"-9223372036854775808": "int64 -9223372036854775808", "-9223372036854775809": "*big.Int -9223372036854775809",
		"1e999": "float64 .inf", "1GB": "string 1GB", "30s": "string 30s",
		"1+2j": `complex128 "(1+2j)"`, "-1.5-2j": `complex128 "(-1.5-2j)"`, "2j": `complex128 "(0+2j)"`,
		"1+1": "string 1+1", "2j+1": "string 2j+1",
		"'a' \"b\"": "string ab", "b'\\x41\\x00'": `[]uint8 "A\x00"`, "r'\\n'": `string \n`, "u'x'": "string x",
		"f'x'": "string f'x'", "'\\u00e9\\x41\\101\\\n'": "string éAA", "'\\d'": `string \d`,
		"'''a\nb'''": `string "a\nb"`, "'a' b'b'": `string "'a' b'b'"`, "'\\x4'": `string "'\\x4'"`,
		"[1, 'x', None]": "config.List [1, x, null]", "(1,)": "config.Tuple [1]", "1, 2": "config.Tuple [1, 2]",
		"()": "config.Tuple []", "(1)": "int64 1", "{}": "*config.Map {}", "{1, 2, 1.0}": "config.Set [1, 2]",
		"set()":               "config.Set []",
		"{'a': 1, 'b': [2],}": "*config.Map {a: 1, b: [2]}", "{1: 'x', True: 'y'}": "*config.Map {1: y}",
		"[1, # c\n 2]": "config.List [1, 2]", "\n1": "int64 1", "1 # c": "int64 1", "[1, \\\n 2]": "config.List [1, 2]",
		"mlx5_0:1": "string mlx5_0:1", "tcp://h:1": "string tcp://h:1", "[1": `string "[1"`,
		"{1: 2, 3}": `string "{1: 2, 3}"`, "[*a]": `string "[*a]"`, "...": "string ...", "(1, 2": `string "(1, 2"`,
	} {
		v, err := Interpret(text)
		if err != nil || typedText(v) != want {
			t.Errorf("%q: %s, %v, want %s", text, typedText(v), err, want)
		}
	}
	for _, text := range []string{"{[1]: 2}", "{[1]}", "[{{}: 1}]", "{({},): 1}"} {
		if v, err := Interpret(text); err == nil {
			t.Errorf("%q: %s, and Python fails", text, typedText(v))
		}
	}
}

// Keys that are equal in Python are one key.
func TestEqualKeys(t *testing.T) {
	for _, pair := range [][2]string{{"1", "1.0"}, {"True", "1"}, {"0", "False"}, {"(1, 2)", "(1.0, 2)"},
		{"99999999999999999999", "99999999999999999999"}, {"1+0j", "1"}, {"None", "None"}, {"b'a'", "b'a'"}} {
		a, _ := Interpret(pair[0])
		b, _ := Interpret(pair[1])
		ha, oka := hashKey(a)
		hb, okb := hashKey(b)
		if !oka || !okb || ha != hb {
			t.Errorf("%s and %s: %q, %q", pair[0], pair[1], ha, hb)
		}
	}
	for _, pair := range [][2]string{{"[1, [2]]", "[1.0, [2]]"}, {"{1, 2}", "{2, 1}"},
		{"{'a': {'b': 1}}", "{'a': {'b': True}}"}, {"(1, 'x')", "(1, 'x')"}} {
		a, _ := Interpret(pair[0])
		b, _ := Interpret(pair[1])
		if !equal(a, b) || equal(a, nil) || equal(nil, b) {
			t.Errorf("%s and %s", pair[0], pair[1])
		}
	}
}
