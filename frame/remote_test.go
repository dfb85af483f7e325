package frame

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/expr"
)

// TestRemoteRequests: requests of Python programs, of which tests/dask has the real ones, are answered by a task.
func TestRemoteRequests(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	for _, r := range []struct{ text, want string }{
		{`{`, "request of another version"}, {`{"do":"run"} {}`, "more than one value"},
		{`{"new":1}`, `unknown field "new"`},
		{`{"do":"run","plan":[]}`, "query without steps"},
		{`{"do":"run","plan":[{"verb":"filter"}]}`, `a query cannot begin with "filter"`},
		{`{"do":"fly","plan":[{"verb":"sql","text":"select 1 as x"}]}`, `unknown request "fly"`},
		{`{"do":"schema","plan":[{"verb":"sql","text":"select 1 as x"},{"verb":"fly"}]}`, `unknown verb "fly"`},
		{`{"do":"schema","plan":[{"verb":"scan","format":"xls","path":"/x"}]}`, `unknown format "xls"`},
		{`{"do":"write","format":"xls","plan":[{"verb":"sql","text":"select 1 as x"}]}`, `unknown format "xls"`},
		{`{"do":"schema","plan":[{"verb":"futures","keys":[]}]}`, "without partitions"},
		{`{"do":"schema","plan":[{"verb":"scan","format":"csv","path":"/x","schema":"AAAA"}]}`, "decode schema"},
		{one(`{"verb":"filter","exprs":[{"op":"column","name":"y"}]}`), `no column "y"`},
		{one(`{"verb":"filter","exprs":[{"op":"fly"}]}`), "fly"},
		{one(`{"verb":"filter","exprs":[{"op":"=="}]}`), "=="},
		{one(`{"verb":"filter","exprs":[{"op":"literal","value":[1]}]}`), "no bool, number or text"},
		{one(`{"verb":"filter","exprs":[{"op":"literal","value":1e999}]}`), "1e999"},
		{one(`{"verb":"select","exprs":[{"op":"cast","type":"fly","args":[{"op":"column","name":"x"}]}]}`), "fly"},
		{one(`{"verb":"agg","aggs":[{"func":"fly","name":"n"}]}`), "fly"},
		{one(`{"verb":"agg","aggs":[{"func":"sum","name":"n"}]}`), "sum"},
		{one(`{"verb":"join","kind":"outer","others":[[{"verb":"sql","text":"select 1"}]]}`), `join of kind "outer"`},
		{one(`{"verb":"union","others":[[]]}`), "query without steps"},
		{one(`{"verb":"top","n":-1,"order":[{"expr":{"op":"column","name":"x"}}]}`), "negative number of rows"},
		{strings.Repeat(" ", maxRemote+1), "more than"},
	} {
		if _, err := runRemote(ctx, c, r.text); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%.100s: got %v, want %q", r.text, err, r.want)
		}
	}
	answer, err := runRemote(ctx, c, one(`{"verb":"with","exprs":[{"op":"as","name":"y","args":[{"op":"+","args":[`+
		`{"op":"column","name":"x"},{"op":"literal","value":2.5}]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := decodeSchema(answer.Schema)
	if err != nil || schema.NumFields() != 2 || schema.Field(1).Type.ID() != arrow.FLOAT64 {
		t.Errorf("schema: got %v, %v", schema, err)
	}
}

// one returns a request for the schema of a verb on a table with the column x.
func one(step string) string {
	return `{"do":"schema","plan":[{"verb":"sql","text":"select 1 as x"},` + step + `]}`
}

// FuzzRemoteExpr: any expression of a request is one that can be bound to columns, or an error.
func FuzzRemoteExpr(f *testing.F) {
	for _, text := range []string{`{"op":"column","name":"i"}`, `{"op":"literal","value":1.5}`, `{"op":"literal"}`,
		`{"op":"cast","type":"decimal(5,2)","args":[{"op":"column","name":"i"}]}`,
		`{"op":"and","args":[{"op":"is null","args":[{"op":"column","name":"s"}]},{"op":"literal","value":true}]}`,
		`{"op":"truncate","name":"month","args":[{"op":"literal","value":"2020-01-02","type":"date32"}]}`,
		`{"op":"in","args":[{"op":"column","name":"s"},{"op":"literal","value":"x"}]}`,
		`{"op":"if","args":[{"op":"==","args":[{"op":"column","name":"i"},{"op":"literal","value":1}]}]}`,
	} {
		f.Add(text)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	f.Fuzz(func(t *testing.T, text string) {
		var x remoteExpr
		if json.Unmarshal([]byte(text), &x) != nil {
			return
		}
		e, err := x.expr()
		if err != nil {
			return
		}
		_ = e.String()
		if _, err := expr.Bind(e, schema); err != nil && err.Error() == "" {
			t.Fatal("error without a text")
		}
	})
}
