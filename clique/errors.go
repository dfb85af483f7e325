package clique

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/collective"
)

// RankError is why a clique has ended: a rank has died, left or given up, or the function that
// ran on it failed. Every operation of every other rank returns it from then on. See
// Clique.Reform.
type RankError = collective.RankError

// MismatchError says that the ranks did not call the same collective with the same arguments,
// or that one of them called it with bad ones, such as a root that does not exist. Every rank
// gets the same one, nothing was transferred, and the clique can be used further.
type MismatchError = collective.MismatchError

// TruncatedError is a Recv into less memory than the message needs.
type TruncatedError = collective.TruncatedError

// Errors that errors.Is finds.
var (
	// ErrClosed is returned by operations on a closed Rank. It matches net.ErrClosed with errors.Is.
	ErrClosed = collective.ErrClosed
	// ErrUnknown is returned for a ticket of a clique that the worker has no part in, or no longer: the clique was
	// dissolved, or not used for Options.Idle.
	ErrUnknown = errors.New("clique: the worker has no part in this clique")
	// ErrNoWorker is returned when a worker is named that the cluster does not have.
	ErrNoWorker = errors.New("clique: there is no such worker")
)

// FormError tells which workers could not become ranks, and why. The others have given up what
// they had prepared.
type FormError struct {
	// Clique is the id of what was to be formed.
	Clique string
	// Workers has the reason of each worker that failed, by address.
	Workers map[string]string
}

// Error names all of them.
func (e *FormError) Error() string {
	return fmt.Sprintf("clique %s: %s", e.Clique, reasons(e.Workers))
}

// reasons writes "a: why; b: why" in the order of the names. Workers with the same reason stand
// together, as a dead rank is a reason to all others.
func reasons(of map[string]string) string {
	who := map[string][]string{}
	for name, why := range of {
		who[why] = append(who[why], name)
	}
	lines := make([]string, 0, len(who))
	for why, names := range who {
		slices.Sort(names)
		lines = append(lines, strings.Join(names, ", ")+": "+why)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// RunError is a round of a function that failed on some ranks.
type RunError struct {
	// Clique is its id, Func the function's name.
	Clique, Func string
	// Ranks has the error of each rank that failed.
	Ranks map[int]error
	// Dead are the ranks whose workers are gone.
	Dead []int
}

// Error tells the errors of all ranks; those that are the same only once.
func (e *RunError) Error() string {
	texts := map[string]string{}
	for r, err := range e.Ranks {
		texts[fmt.Sprintf("rank %d", r)] = err.Error()
	}
	return fmt.Sprintf("clique %s: %s: %s", e.Clique, e.Func, reasons(texts))
}

// Unwrap gives the errors of the ranks, in their order, to errors.Is and errors.As.
func (e *RunError) Unwrap() []error {
	out := make([]error, 0, len(e.Ranks))
	for r := range sorted(e.Ranks) {
		out = append(out, e.Ranks[r])
	}
	return out
}
