package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The generated files of the tree are those that the generator writes now.
func TestCurrent(t *testing.T) {
	dir := filepath.Join("..", "..", "wire", "message")
	files, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is stale (%v): run go generate ./internal/wire/message", name, err)
		}
	}
	if len(files) != 3 {
		t.Errorf("%d files, want 3", len(files))
	}
}

// source writes a package of one file and returns its folder.
func source(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package message\n\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGenerate(t *testing.T) {
	files, err := generate(source(t, `
// X has fields of several kinds.
//
//message:op do-x
type X struct {
	Key   Key     `+"`msg:\"key,required\"`"+`
	Note  string  `+"`msg:\"note,omitempty\"`"+`
	Took  float64 `+"`msg:\"took,none=-1\"`"+`
	Count int64   `+"`msg:\"count,min=2\"`"+`
	Value Object  `+"`msg:\"value\"`"+`
	Parts []Part  `+"`msg:\"parts\"`"+`
}

// X2 is X for another receiver.
//
//message:op do-x to client
type X2 struct{ One Part `+"`msg:\"one,omitempty\"`"+` }

// Part is a part.
//
//message:part
type Part struct {
	Name  string `+"`msg:\"name,required\"`"+`
}

// Y is none.
type Y struct{ A chan int }
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"read_gen.go": {"func (m *X) Read(o *Ops) error {", "*m = X{Took: -1, Parts: m.Parts[:0]}",
			"\tcase \"key\":\n\t\t\tm.Key, err = " +
				"readKey(&r)",
			"if m.Key == \"\" {\n\t\treturn o.failAt(\"key\", errMissing)", "if m.Count < 2 {",
			"if !r.TryNil() {\n\t\t\t\tm.Count, err = r.ReadInt()", "m.Parts, err = readPartList(&r, m.Parts)",
			"func (m *X2) Read(o *Ops) error {", "func (m *Part) read(in *msgpack.Reader) error {",
			"return inField(k, err)", "return inFieldAt(\"name\", errMissing)"},
		"append_gen.go": {"func (m *X) Append(b *Buffer) {", "n := byte(0x86)", "if m.Note != \"\" {\n\t\tn++",
			`body = append(body, "\xa2op\xa4do-x\xa3key"...)`, "if m.Took == -1 {\n\t\tbody = msgpack.AppendNil(body)",
			"b.Body = body\n\tm.Value.append(b)\n\tbody = b.Body\n",
			"body = appendPartList(body, m.Parts)\n\tb.Body = body\n}",
			"func (m *Part) append(body []byte) []byte {\n\tbody = append(body, \"\\x81\\xa4name\"...)",
			"if m.One != (Part{}) {\n\t\tbody = append(body, \"\\xa3one\"...)\n\t\tbody = m.One.append(body)"},
		"all_gen_test.go": {`{"do-x", func() generated { return new(message.X) }},`,
			`{"do-x", func() generated { return new(message.X2) }},`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s has no %q:\n%s", name, want, files[name])
			}
		}
		if strings.Contains(string(files[name]), "Y") {
			t.Errorf("%s contains Y", name)
		}
	}
}

func TestGenerateRejects(t *testing.T) {
	many := "//message:op x\ntype X struct {\n"
	for c := 'A'; c <= 'O'; c++ {
		many += string(c) + " bool `msg:\"" + string(c) + "\"`\n"
	}
	for text, want := range map[string]string{
		"type X struct{}":                                                          "no struct has a comment line",
		"//message:op x\ntype X int":                                               "X is not a struct",
		"//message:op x\ntype X struct { A int64 }":                                "or a tag msg",
		"//message:op x\ntype X struct { A, B int64 `msg:\"a\"` }":                 "field without a name",
		"//message:op x\ntype X struct { A chan int `msg:\"a\"` }":                 "chan int",
		"//message:op x\ntype X struct { A int64 `msg:\",required\"` }":            "invalid wire name",
		"//message:op x\ntype X struct { A int64 `msg:\"op\"` }":                   "invalid wire name",
		"//message:op x\ntype X struct { A int64 `msg:\"a,lenient\"` }":            "no option",
		"//message:op x\ntype X struct { A int64 `msg:\"a,min=x\"` }":              "option min",
		"//message:op x\ntype X struct { A bool `msg:\"a\"`; B bool `msg:\"a\"` }": "duplicate wire name",
		"//message:op x\ntype X struct{}\n\n//message:op x\ntype Y struct{}":       "X and Y have the op x",
		"//message:part\ntype X struct{}":                                          "no struct has a comment line",
		"//message:part\ntype Y struct { A Object `msg:\"a\"` }":                   "cannot have frames",
		many + "}": "more than 14 fields",
		"type":     "expected",
	} {
		if _, err := generate(source(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot error %v, want one with %q", text, err, want)
		}
	}
}
