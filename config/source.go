package config

import (
	"fmt"
	"strconv"
)

// Kind is the kind of source of a value. A greater Kind takes precedence over a smaller one.
type Kind uint8

// The kinds, in increasing precedence.
const (
	// KindDefault is a default of the package.
	KindDefault Kind = iota
	// KindFile is a YAML or JSON file.
	KindFile
	// KindEnv is a DASK_* variable, or one with a parent's configuration.
	KindEnv
	// KindSet is a value set by the program.
	KindSet
	// KindFlag is a flag of the command line or a field of a Go struct.
	KindFlag
	// KindUCX is a UCX_* variable, which UCX itself reads.
	KindUCX
)

// String returns the name of the kind.
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

// Source is the source of a value.
type Source struct {
	// Kind orders sources.
	Kind Kind
	// Name is the file's path, the variable's name or the flag's; empty for defaults and Set.
	Name string
	// Line is the line in the file, from 1; 0 elsewhere.
	Line int
	// Key is the key as it was written, if it has been renamed.
	Key string
}

// String returns a short form: file:line, the variable's name, "set" or "default".
func (s Source) String() string {
	switch {
	case s.Kind == KindFile && s.Line > 0:
		return fmt.Sprintf("%s:%d", s.Name, s.Line)
	case s.Name != "":
		return s.Name
	}
	return s.Kind.String()
}
