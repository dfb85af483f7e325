// Package options checks the common options of benchmarks: names from a list, and numbers with defaults for a full and
// a quick run.
package options

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Names returns the names in a list of cases or settings.
func Names[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = name(v)
	}
	return names
}

// Known returns an error if one of the names is invalid. what describes a name in errors.
func Known(what string, names, valid []string) error {
	for _, n := range names {
		if !slices.Contains(valid, n) {
			return fmt.Errorf("unknown %s %q; want one of %s", what, n, strings.Join(valid, ", "))
		}
	}
	return nil
}

// Choose sets the default of a list of names, and returns an error if one of them is invalid.
func Choose(what string, names *[]string, valid, byDefault []string) error {
	if len(*names) == 0 {
		*names = byDefault
	}
	return Known(what, *names, valid)
}

// Number is an option with its defaults.
type Number[T int | int64 | uint64 | time.Duration] struct {
	// What describes the option in errors.
	What string
	// Value is the option; 0 means not set.
	Value *T
	// Full and Quick are the defaults.
	Full, Quick T
}

// Positive sets the defaults of numbers, and returns an error if one is not positive.
func Positive[T int | int64 | uint64 | time.Duration](quick bool, numbers ...Number[T]) error {
	for _, n := range numbers {
		if *n.Value == 0 {
			if *n.Value = n.Full; quick {
				*n.Value = n.Quick
			}
		}
		if *n.Value <= 0 {
			return fmt.Errorf("%s must be positive, not %v", n.What, *n.Value)
		}
	}
	return nil
}

// Sizes sets the default of a list of sizes, and returns an error if one is not between least and most bytes.
func Sizes(sizes *[]int64, least, most int64, byDefault ...int64) error {
	if len(*sizes) == 0 {
		*sizes = byDefault
	}
	for _, n := range *sizes {
		if n < least || n > most {
			return fmt.Errorf("size %s: want %s to %s", benchfmt.FormatSize(n), benchfmt.FormatSize(least),
				benchfmt.FormatSize(most))
		}
	}
	return nil
}
