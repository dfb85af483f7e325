// Package place finds the code that registers a function.
package place

import (
	"fmt"
	"runtime"
	"strings"
)

// wrappers are the packages that call package task to register a function. The linker escapes dots in the last element
// of an import path, so that function names of the root package do not begin with its import path.
var wrappers = []string{
	"go%2emillstream%2edev.",
	"go.millstream.dev.",
	"go.millstream.dev/internal/task.",
	"go.millstream.dev/client.",
	"go.millstream.dev/clique.",
	"go.millstream.dev/clique/native.",
	"go.millstream.dev/frame.",
	"go.millstream.dev/frame/kmeans.",
}

// Caller returns file:line of the code that registers a function: the innermost frame outside of the wrappers. A
// wrapper registers its own functions in its initializer, and tests of wrappers are not wrappers.
func Caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && (!isWrapper(f.Function) || isInitializer(f.Function) ||
			strings.HasSuffix(f.File, "_test.go")) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown location"
		}
	}
}

func isWrapper(function string) bool {
	for _, p := range wrappers {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// isInitializer reports whether a function initializes package-level variables or is an init function.
func isInitializer(function string) bool {
	name := function[strings.LastIndexByte(function, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	return name == "init" || strings.HasPrefix(name, "init.")
}
