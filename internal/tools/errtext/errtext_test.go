package errtext

import (
	"go/ast"
	"go/parser"
	"testing"
)

func TestOf(t *testing.T) {
	for source, want := range map[string]string{
		`errors.New("a: no luck")`:              "a: no luck",
		`fmt.Errorf("a: %s: "+"empty", name)`:   "a: %s: empty",
		"fmt.Errorf(`a: ` + `b` + \": %w\", e)": "a: b: %w",
		`yaml.Errorf("line %d", 1)`:             "line %d",
		`errors.New(text)`:                      "",
		`fmt.Errorf("a: "+text+"; do b")`:       "a: …; do b",
		`fmt.Errorf(text+"a")`:                  "",
		`fmt.Errorf()`:                          "",
		`template.New("page")`:                  "",
		`New("x")`:                              "",
		`a.b.Errorf("x")`:                       "",
		`errors.New('x')`:                       "",
	} {
		x, err := parser.ParseExpr(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := Of(x.(*ast.CallExpr)); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", source, got, ok, want)
		}
	}
}
