package clique

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/collective"
)

// RankError is returned by all operations of the other ranks after a rank was lost, closed or aborted, or its function
// failed. The clique has ended. See Clique.Reform.
type RankError = collective.RankError

// MismatchError is returned when ranks call different collectives or use different arguments, or when an argument is
// invalid, such as a root that does not exist. Every rank gets the same error, nothing was transferred, and the clique
// remains usable.
type MismatchError = collective.MismatchError

// TruncatedError is returned when a message is longer than the memory of its Recv.
type TruncatedError = collective.TruncatedError

// Errors for errors.Is.
var (
	// ErrClosed is returned by operations on a closed Rank. It matches net.ErrClosed with errors.Is.
	ErrClosed = collective.ErrClosed
	// ErrUnknown is returned for the ticket of a clique that the worker has never had or no longer has: the clique was
	// dissolved, or was not used for Options.Idle.
	ErrUnknown = errors.New("clique: the worker has no part in this clique")
	// ErrNoWorker is returned when the cluster does not have the named worker.
	ErrNoWorker = errors.New("clique: no such worker")
)

// FormError is returned by Form when workers could not become ranks. The other workers have undone their part.
type FormError struct {
	// Clique is the ID of the clique.
	Clique string
	// Workers has the reason for each worker that failed, by address.
	Workers map[string]string
}

// Error returns the reasons of all workers.
func (e *FormError) Error() string {
	return fmt.Sprintf("clique %s: %s", e.Clique, reasons(e.Workers))
}

// reasons formats "a: why; b: why", sorted by name. Names with the same reason are grouped, because the loss of one
// rank is the reason of all others.
func reasons(of map[string]string) string {
	names := map[string][]string{}
	for name, why := range of {
		names[why] = append(names[why], name)
	}
	lines := make([]string, 0, len(names))
	for why, list := range names {
		slices.Sort(list)
		lines = append(lines, strings.Join(list, ", ")+": "+why)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// RunError is returned when a function failed on some ranks.
type RunError struct {
	// Clique is the ID of the clique, Func the name of the function.
	Clique, Func string
	// Ranks has the error of each rank that failed.
	Ranks map[int]error
	// Dead are the ranks whose workers have left the cluster.
	Dead []int
}

// Error returns the errors of all ranks, equal ones once.
func (e *RunError) Error() string {
	texts := map[string]string{}
	for r, err := range e.Ranks {
		texts[fmt.Sprintf("rank %d", r)] = err.Error()
	}
	return fmt.Sprintf("clique %s: %s: %s", e.Clique, e.Func, reasons(texts))
}

// Unwrap returns the errors of the ranks in order.
func (e *RunError) Unwrap() []error {
	out := make([]error, 0, len(e.Ranks))
	for r := range sorted(e.Ranks) {
		out = append(out, e.Ranks[r])
	}
	return out
}
