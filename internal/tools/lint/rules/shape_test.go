package rules

import (
	"fmt"
	"strings"
	"testing"
)

func TestShape(t *testing.T) {
	files := map[string]string{}
	for i := range maxInternal + 1 {
		files[fmt.Sprintf("internal/p%d/a.go", i)] = fmt.Sprintf("// Package p%d is one.\npackage p%d\n", i, i)
	}
	var methods strings.Builder
	methods.WriteString("// Package mem is one.\npackage mem\n\ntype t[T any] struct{}\n\n")
	for i := range maxMethods + 1 {
		fmt.Fprintf(&methods, "func (*t[T]) m%d() {}\n", i)
	}
	files["mem/a.go"] = methods.String()
	for i := range maxFiles {
		files[fmt.Sprintf("mem/b%d.go", i)] = "package mem\n"
		files[fmt.Sprintf("mem/b%d_test.go", i)] = "package mem\n"
	}
	expect(t, checkFiles(t, files), "internal: 14 folders, more than 13", "mem.t: 61 methods, more than 60",
		"mem: 31 files, more than 30")
	delete(files, "internal/p0/a.go")
	delete(files, "mem/a.go")
	expect(t, checkFiles(t, files))
}
