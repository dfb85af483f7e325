package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const verbsSource = `package a

type T struct{ name string }

func Open() *T                    { return nil }
func (t *T) Close() error         { return nil }
func (t *T) Name() string         { return t.name }
func (t *T) String() string       { return t.name }
func (t *T) Err() error           { return nil }
func (t *T) Check() error         { return nil }
func (t *T) hidden()              {}

type U struct{}

func (u U) Close() error          { return nil }

type hidden struct{}

func (hidden) Shown()             {}

type Box[V any] struct{}

func NewBox[V any]() *Box[V]      { return nil }
func (b *Box[V]) Put(v V)         {}
func Device()                     {}
func private()                    {}
`

const examplesSource = `package a_test

import (
	"fmt"

	"example.org/m/a"
)

var box = a.NewBox[int]()

func open() *a.T { return a.Open() }

func ExampleOpen() {
	t := open()
	box.Put(1)
	fmt.Println(t.Close())
	// Output: <nil>
}

func ExampleDevice() {
	a.Device()
	_ = (*a.T).Check
}

func helper() { _ = a.U{}.Close() }
`

func examplesOf(t *testing.T, source, examples string, compiledOnly map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/m\n\ngo 1.26\n", "a/a.go": source,
		"a/a_test.go": examples} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := checkExamples(root, []string{"a"}, compiledOnly)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func TestExamples(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	expect(t, examplesOf(t, verbsSource, examplesSource, nil),
		"a/a.go:10: the example of T.Check is only compiled; add an Output comment (examples)",
		"a/a.go:15: U.Close has no example (examples)",
		"a/a.go:25: the example of Device is only compiled")
	exempt := map[string]string{"a": "one", "a.T.Close": "two", "a.X": "three"}
	expect(t, examplesOf(t, verbsSource, examplesSource, exempt),
		"a/a.go:15: U.Close has no example",
		"compiledOnly has a.T.Close, which has an example that runs",
		"compiledOnly has a.X,")
	more := examplesSource + "\nfunc ExampleU() {\n\tfmt.Println(a.U{}.Close())\n\t// Output: <nil>\n}\n"
	expect(t, examplesOf(t, verbsSource, more, map[string]string{"a.T": "methods", "a.Device": "function"}))
}

func TestExamplesOfBrokenPackage(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root := t.TempDir()
	mod := []byte("module example.org/m\n\ngo 1.26\n")
	if err := os.WriteFile(filepath.Join(root, "go.mod"), mod, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := checkExamples(root, []string{"gone"}, nil); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got error %v, want one that names the folder", err)
	}
}
