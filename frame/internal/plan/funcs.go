package plan

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// first is the name of the aggregate that returns the first value.
const first = "first"

// aggregateSchema returns the columns of an aggregate.
func aggregateSchema(in *arrow.Schema, keys []string, aggs []Agg) (*arrow.Schema, error) {
	var fields []arrow.Field
	for _, k := range keys {
		at, err := fieldOf(in, k)
		if err != nil {
			return nil, err
		}
		fields = append(fields, in.Field(at))
	}
	for _, a := range aggs {
		var arg arrow.DataType
		if a.Col != "" {
			at, err := fieldOf(in, a.Col)
			if err != nil {
				return nil, err
			}
			arg = in.Field(at).Type
		}
		t, err := aggregateType(a, arg)
		if err != nil {
			return nil, err
		}
		fields = append(fields, arrow.Field{Name: a.Name, Type: t, Nullable: true})
	}
	return arrow.NewSchema(fields, nil), nil
}

// aggregateType returns the type of an aggregate of a type, which is nil for the number of rows.
func aggregateType(a Agg, arg arrow.DataType) (arrow.DataType, error) {
	if a.Func == "count" || a.Func == "nunique" {
		return arrow.PrimitiveTypes.Int64, nil
	}
	if arg == nil {
		return nil, fmt.Errorf("%s has no argument", a)
	}
	float := []string{"mean", "var", "std", "median", "quantile", "approx_quantile"}
	switch {
	case a.Func == "min" || a.Func == "max" || a.Func == first || a.Func == "last":
		return arg, nil
	case a.Func == "list":
		return arrow.ListOf(arg), nil
	case !isNumber(arg):
		return nil, fmt.Errorf("%s: column %q is %v, which is no number", a.Func, a.Col, arg)
	case slices.Contains(float, a.Func):
		return arrow.PrimitiveTypes.Float64, nil
	case a.Func != "sum":
		return nil, fmt.Errorf("unknown aggregate %s", a.Func)
	case isUnsigned(arg):
		return arrow.PrimitiveTypes.Uint64, nil
	case arrow.IsInteger(arg.ID()):
		return arrow.PrimitiveTypes.Int64, nil
	}
	if d, ok := arg.(*arrow.Decimal128Type); ok {
		return &arrow.Decimal128Type{Precision: 38, Scale: d.Scale}, nil
	}
	return arrow.PrimitiveTypes.Float64, nil
}
