package rules

import (
	"strings"
	"testing"
)

func TestPhrases(t *testing.T) {
	told, whether := "is to"+"ld", "tell wh"+"ether"
	for _, c := range []struct {
		name, file, text string
		wants            []string
	}{
		{"in a folder that is done", "mem/a.go", "package mem\n\n// The owner " + told + ".\n",
			[]string{"mem/a.go:3: "}},
		{"below one", "ucx/internal/x/a.go", "package x\n\n// The owner " + told + ".\n",
			[]string{"ucx/internal/x/a.go:3: "}},
		{"in its tests", "mem/a_test.go", "package mem\n\n// The owner " + told + ".\n", nil},
		{"in another folder", "examples/a.go", "package main\n\n// The owner " + told + ".\n", nil},
		{"gone everywhere", "examples/a.go", "package main\n\n// a and b " + whether + "\n",
			[]string{"examples/a.go:3: "}},
		{"gone from documents", "docs/a.md", "a\n" + whether + "\n", []string{"docs/a.md:2: "}},
		{"in Python", "tests/a.py", "x = 1\n# The owner " + told + ".\n", []string{"tests/a.py:2: "}},
		{"in C", "ucx/internal/ucp/a.c", "/* The owner " + told + ". */\n", []string{"ucx/internal/ucp/a.c:1: "}},
		{"in CUDA", "internal/device/kernels/a.cu", "// The owner " + told + ".\n",
			[]string{"internal/device/kernels/a.cu:1: "}},
		{"in data", "tests/a.json", "\"" + whether + "\"\n", nil},
		{"a name", "mem/a.go", "package mem\n\nvar user = \"no" + "body\"\n", nil},
		{"part of a word", "mem/a.go", "package mem\n\n// retold renewal\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkFiles(t, map[string]string{c.file: c.text}), c.wants...) })
	}
}

func TestDocStart(t *testing.T) {
	const text = `// Package mem is here.
package mem

// Alloc allocates.
func Alloc() {}

// It frees.
func Free() {}

// hidden is not exported.
func hidden() {}

// The sizes of pages.
const (
	Small = 1
	// The large one.
	Large = 2
	// Huge is 1 GiB.
	Huge = 3
)

// A block of memory.
type Block struct{}
`
	expect(t, checkFiles(t, map[string]string{"mem/a.go": text,
		"examples/a.go": strings.Replace(text, "mem", "main", 2)}),
		`mem/a.go:7: begin the doc comment with "Free"`, `mem/a.go:16: begin the doc comment with "Large"`,
		`mem/a.go:22: begin the doc comment with "Block"`)
}

func TestErrorTexts(t *testing.T) {
	const text = `package mem

import (
	"errors"
	"fmt"
)

var (
	errA = errors.New("mem: buffer released")
	errB = errors.New("it is released")
	errC = fmt.Errorf("mem: its owner has "+"%d", 1)
	errD = errors.New("items left")
	errE = errors.New(string(rune(1)))
)
`
	expect(t, checkFiles(t, map[string]string{"mem/a.go": text,
		"examples/a.go": strings.Replace(text, "mem", "main", 1)}),
		`mem/a.go:10: "it is released"`, `mem/a.go:11: "mem: its owner has %d"`)
}

func TestAllSentinels(t *testing.T) {
	const text = `package x

import "errors"

// ErrGood is returned by Alloc.
var ErrGood = errors.New("no more")

// ErrVague is a bad thing.
var ErrVague = errors.New("vague")
`
	expect(t, checkFiles(t, map[string]string{"ucx/internal/x/a.go": text, "examples/internal/x/a.go": text}),
		`ucx/internal/x/a.go:9: document ErrVague as "ErrVague is returned by …"`)
}
