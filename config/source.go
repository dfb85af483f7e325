package config

import (
	"fmt"
	"strconv"
)

// Kind is the sort of place that a value came from. A greater Kind wins over a smaller one.
type Kind uint8

// The kinds, weakest first.
const (
	// KindDefault is a default of the package.
	KindDefault Kind = iota
	// KindFile is a YAML or JSON file.
	KindFile
	// KindEnv is a DASK_* variable, or one that carries a parent's configuration.
	KindEnv
	// KindSet is a value set by the program.
	KindSet
	// KindFlag is a flag of the command line or a field of a Go struct.
	KindFlag
	// KindUCX is a UCX_* variable, which UCX reads by itself.
	KindUCX
)

// String names the kind in one word.
func (k Kind) String() string {
	switch k {
	case KindDefault:
		return "default"
	case KindFile:
		return "file"
	case KindEnv:
		return "environment"
	case KindSet:
		return "set"
	case KindFlag:
		return "flag"
	case KindUCX:
		return "UCX variable"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Source says where a value came from.
type Source struct {
	// Kind orders sources.
	Kind Kind
	// Name is the file's path, the variable's name or the flag's; empty for defaults and Set.
	Name string
	// Line is the line in the file, from 1; 0 elsewhere.
	Line int
	// Key is the key as it was written, when it has been renamed since.
	Key string
}

// String is short enough for a column: file:line, the variable's name, "set" or "default".
func (s Source) String() string {
	switch {
	case s.Kind == KindFile && s.Line > 0:
		return fmt.Sprintf("%s:%d", s.Name, s.Line)
	case s.Name != "":
		return s.Name
	}
	return s.Kind.String()
}
