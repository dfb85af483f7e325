package plan

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/group"
)

// The names of aggregates. CountRows has no argument.
const (
	CountRows      = "count"
	Count          = "count"
	Sum            = "sum"
	Min            = "min"
	Max            = "max"
	Mean           = "mean"
	Var            = "var"
	Std            = "std"
	Median         = "median"
	Quantile       = "quantile"
	ApproxQuantile = "approx_quantile"
	First          = "first"
	Last           = "last"
	NUnique        = "nunique"
	CollectList    = "collect_list"
)

// aggregates are the functions of package group by name.
var aggregates = map[string]group.Func{Count: group.Count, Sum: group.Sum, Min: group.Min, Max: group.Max,
	Mean: group.Mean, Var: group.Var, Std: group.Std, Median: group.Median, Quantile: group.Quantile,
	ApproxQuantile: group.ApproxQuantile, First: group.First, Last: group.Last, NUnique: group.NUnique,
	CollectList: group.CollectList}

// Specs returns keys and aggregates in the form of package group, for rows of a schema.
func Specs(s *arrow.Schema, keys []string, aggs []Agg) ([]int, []group.Spec, error) {
	at, err := positions(s, keys)
	if err != nil {
		return nil, nil, err
	}
	specs := make([]group.Spec, len(aggs))
	for i, a := range aggs {
		f, ok := aggregates[a.Func]
		if !ok {
			return nil, nil, fmt.Errorf("unknown aggregate %s", a.Func)
		}
		specs[i] = group.Spec{Func: f, Name: a.Name, Q: a.Param}
		if a.Col == "" {
			if a.Func != CountRows {
				return nil, nil, fmt.Errorf("%s has no argument", a.Func)
			}
			specs[i].Func = group.CountAll
			continue
		}
		if specs[i].Column, err = fieldOf(s, a.Col); err != nil {
			return nil, nil, err
		}
	}
	return at, specs, nil
}

// aggregateSchema returns the columns of an aggregate.
func aggregateSchema(in *arrow.Schema, keys []string, aggs []Agg) (*arrow.Schema, error) {
	at, specs, err := Specs(in, keys, aggs)
	if err != nil {
		return nil, err
	}
	return group.ResultSchema(in, at, specs)
}
