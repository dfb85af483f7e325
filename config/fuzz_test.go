package config

import (
	"errors"
	"testing"
)

var yamlSeeds = []string{
	"", "a: 1\n", "a: &x {b: 1}\nc: {<<: *x, d: [*x, *x]}\n", "a: &a [*a]\n", "k: !!int 0x\n", "k: !!binary aGk=\n",
	"- 2001-12-14t21:59:43.10-05:00\n- 1:30.5\n- .inf\n",
	"k: !!omap [a: 1]\n", "? [1]\n: 2\n", "a: 1\n---\nb: 2\n", "k: |\n  x\n", "<<: {a: 1}\n", "%YAML 1.1\n---\na\n",
	"distributed:\n  comm:\n    ucx: {tcp: yes, rmm: {pool-size: 1GB}}\n",
	"ucx: {net-devices: x}\nrmm: {pool-size: 1}\n", "a: *b\n", "\t", "\xff", "k: \"\\u00e9\"\n",
	"work-stealing: 1\nshuffle: {a: b}\n",
}

// Whatever the bytes are: a value or an error that names the file.
func FuzzParseYAML(f *testing.F) {
	for _, s := range yamlSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseYAML("f.yaml", text)
		if err != nil {
			var fault *FileError
			if !errors.As(err, &fault) || fault.File != "f.yaml" {
				t.Errorf("error without a file: %v", err)
			}
			return
		}
		_ = Format(v)
	})
}

// What can be migrated needs no second migration.
func FuzzMigrate(f *testing.F) {
	for _, s := range yamlSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, changes, err := Migrate("f.yaml", text)
		if err != nil || len(changes) == 0 {
			return
		}
		again, more, err := Migrate("f.yaml", out)
		if err != nil || len(more) > 0 || string(again) != string(out) {
			t.Errorf("%q became %q, and then %q with %v, %v", text, out, again, more, err)
		}
	})
}

func FuzzInterpret(f *testing.F) {
	for _, s := range []string{"1", "-1.5e3", "'a' \"b\"", "b'\\xff'", "{1: [2, (3,)], 'x': {4}}", "1+2j", "set()",
		"(((((1)))))", "0x_1", "'\\N{DASH}'", "# c\n1", "{[1]: 2}", "mlx5_0:1", "'''a\nb'''", "[1,\n2]", "\\\n1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Interpret(text)
		if err != nil && !errors.Is(err, errUnhashable) {
			t.Errorf("%q: %v", text, err)
		}
		_ = Format(v)
	})
}

// What was read can be written and read again.
func FuzzDeserialize(f *testing.F) {
	for _, s := range []string{"e30=", "eyJhIjogMX0=", "eyJhIjogSW5maW5pdHl9",
		"eyJhIjogW251bGwsIHRydWUsICJcdTAwZTkiXX0=", "", "!!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Deserialize(text)
		if err != nil {
			return
		}
		again, err := Serialize(m)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		back, err := Deserialize(again)
		if err != nil || Format(back) != Format(m) {
			t.Errorf("%q: %s became %s, %v", text, Format(m), Format(back), err)
		}
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"1GB", "1.5 MiB", "30s", "5 minutes", "é", "1é", "", "_", "1_0", "1e999GB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseBytes(text); err != nil && n != 0 {
			t.Errorf("%q: %d with an error", text, n)
		}
		if d, err := ParseDuration(text); err != nil && d != 0 {
			t.Errorf("%q: %v with an error", text, d)
		}
	})
}
