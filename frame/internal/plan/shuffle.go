package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// Shuffle brings the rows with equal keys into one partition.
type Shuffle struct {
	In   Node
	Keys []string
	// N is the number of partitions; 0 lets the runner choose it.
	N int
}

// Schema returns the columns of the input.
func (n *Shuffle) Schema() *arrow.Schema { return n.In.Schema() }

// Inputs returns the input.
func (n *Shuffle) Inputs() []Node { return []Node{n.In} }

// Label returns the keys.
func (n *Shuffle) Label() string {
	text := "Shuffle by " + list(n.Keys)
	if n.N > 0 {
		text += " into " + number(int64(n.N)) + " partitions"
	}
	return text
}

func (n *Shuffle) with(in []Node) Node { return &Shuffle{In: in[0], Keys: n.Keys, N: n.N} }

// NewShuffle returns the rows of the input in n partitions by columns, or in as many as are useful if n is 0.
func NewShuffle(in Node, n int, columns []string) (Node, error) {
	if n < 0 || n > vec.MaxBuckets {
		return nil, fmt.Errorf("%d partitions; use 1 to %d, or 0 for the default", n, vec.MaxBuckets)
	}
	if len(columns) == 0 {
		return nil, errors.New("no columns")
	}
	for _, name := range columns {
		at, err := fieldOf(in.Schema(), name)
		if err != nil {
			return nil, err
		}
		if t := in.Schema().Field(at).Type; !vec.Hashable(t) {
			return nil, fmt.Errorf("column %q of type %v cannot be a key", name, t)
		}
	}
	return &Shuffle{In: in, Keys: slices.Clone(columns), N: n}, nil
}
