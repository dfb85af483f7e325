package cmdline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SuggestFlag adds the flag that was probably meant to the error about an unknown flag.
func SuggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	var below []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Flags().Lookup(unknown.GetSpecifiedName()) != nil {
			below = append(below, sub.CommandPath())
		}
	}
	if len(below) > 0 {
		return fmt.Errorf("%w; known to %s", err, strings.Join(below, ", "))
	}
	return err
}

// ExtraArgument returns the error about an unexpected argument. "-- enable-nvlink", which appeared in guides, is a flag
// with a blank in it.
func ExtraArgument(cmd *cobra.Command, argument, otherwise string) error {
	name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
	if cmd.Flags().Lookup(name) != nil {
		return Usagef("unexpected argument %q; did you mean --%s, without a blank after the hyphens?", argument, name)
	}
	return Usagef("unexpected argument %q: %s", argument, otherwise)
}

// nearestFlag returns the flag of a command whose name is closest to a misspelled one, "" if none is close.
func nearestFlag(cmd *cobra.Command, name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	best, least := "", 1+len(name)/4
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		d := editDistance(name, f.Name)
		if d <= least && (best == "" || d < least) {
			best, least = f.Name, d
		}
	})
	return best
}

// editDistance returns how many letters must be changed, added, removed or swapped with their neighbor to turn a into
// b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last = last, next
	}
	return last[len(b)]
}
