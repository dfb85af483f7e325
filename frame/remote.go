package frame

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/task"
)

// Queries of Python programs, see millstream.frame in internal/dask/python: the verbs of a query as JSON are the
// argument of a task, which builds the query, runs it as a client of the cluster and publishes the result.

// maxRemote bounds the size of a request.
const maxRemote = 16 << 20

var _ = client.Func("millstream.frame.request", func(ctx context.Context, text string) (remoteAnswer, error) {
	var out remoteAnswer
	err := client.Inside(ctx, func(c *client.Client) (err error) {
		out, err = runRemote(ctx, c, text)
		return err
	})
	return out, err
})

// remoteRequest is what a Python program asks for.
type remoteRequest struct {
	// Do is "run", which publishes the partitions of the result under Name; "write", which writes files into the folder
	// Name; "schema", "explain" or "explain_run".
	Do   string
	Plan []remoteStep
	Name string
	// Format, Overwrite and Compression are for files.
	Format, Compression string
	Overwrite           bool
}

// remoteAnswer is the answer to a request.
type remoteAnswer struct {
	Schema []byte // an Arrow IPC stream without batches
	Text   string
	Paths  []string
}

// remoteStep is one verb of a query. The first of a plan is "scan", "futures" or "sql".
type remoteStep struct {
	Verb string
	// Path, Format, Split and Schema are for scans. Schema is an Arrow IPC stream.
	Path, Format string
	Split        int64
	Schema       []byte
	// Keys are those of futures of record batches.
	Keys []string
	// Text and Tables are for SQL.
	Text   string
	Tables map[string][]remoteStep
	// Names are columns, Exprs the arguments of the verb.
	Names []string
	Exprs []remoteExpr
	Aggs  []remoteAgg
	Order []remoteKey
	N     int64
	// Others are the other queries of a union or a join.
	Others          [][]remoteStep
	Kind, Suffix    string
	LeftOn, RightOn []remoteExpr
	Fraction        float64
	Seed            uint64
}

// remoteExpr is an expression, with the fields of expr.Expr.
type remoteExpr struct {
	Op, Name, Type string
	Value          json.RawMessage
	Args           []remoteExpr
}

// remoteAgg is an aggregate.
type remoteAgg struct {
	Func, Name string
	Arg        *remoteExpr
	Param      float64
}

// remoteKey is a key of a sort.
type remoteKey struct {
	Expr             remoteExpr
	Desc, NullsFirst bool
}

func runRemote(ctx context.Context, c *client.Client, text string) (out remoteAnswer, err error) {
	if len(text) > maxRemote {
		return out, fmt.Errorf("frame: request of %d bytes, more than %d", len(text), maxRemote)
	}
	var r remoteRequest
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return out, fmt.Errorf("frame: request of another version of the Python package: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return out, errors.New("frame: request with more than one value")
	}
	b := &remoteBuilder{ctx: ctx, c: c}
	defer b.release()
	q, err := b.query(r.Plan)
	if err != nil {
		return out, err
	}
	switch r.Do {
	case "schema":
		s, err := q.Schema()
		if err != nil {
			return out, err
		}
		out.Schema, err = encodeSchema(s)
		return out, err
	case "explain":
		out.Text, err = q.Explain()
	case "explain_run":
		out.Text, err = q.ExplainRun(ctx)
	case "run":
		f, err := q.Compute(ctx)
		if err != nil {
			return out, err
		}
		defer f.Release()
		return out, f.Publish(ctx, r.Name, true) // the task may run twice
	case "write":
		out.Paths, err = r.write(ctx, q)
	default:
		err = fmt.Errorf("frame: unknown request %q", r.Do)
	}
	return out, err
}

func (r *remoteRequest) write(ctx context.Context, q *Query) ([]string, error) {
	opts := WriteOptions{Overwrite: r.Overwrite}
	switch r.Format {
	case "parquet":
		return q.WriteParquet(ctx, r.Name, ParquetWriteOptions{Overwrite: r.Overwrite, Compression: r.Compression})
	case "csv":
		return q.WriteCSV(ctx, r.Name, opts)
	case "ndjson":
		return q.WriteNDJSON(ctx, r.Name, opts)
	case "ipc":
		return q.WriteIPC(ctx, r.Name, opts)
	}
	return nil, fmt.Errorf("frame: unknown format %q", r.Format)
}

// remoteBuilder builds queries of requests.
type remoteBuilder struct {
	ctx    context.Context
	c      *client.Client
	frames []*Frame
}

func (b *remoteBuilder) release() {
	for _, f := range b.frames {
		f.Release()
	}
}

func (b *remoteBuilder) query(steps []remoteStep) (*Query, error) {
	if len(steps) == 0 {
		return nil, errors.New("frame: query without steps")
	}
	q, err := b.source(&steps[0])
	for i := 1; i < len(steps) && err == nil; i++ {
		q, err = b.apply(q, &steps[i])
	}
	return q, err
}

// source returns the query of the first step.
func (b *remoteBuilder) source(s *remoteStep) (*Query, error) {
	switch s.Verb {
	case "scan":
		return b.scan(s)
	case "futures":
		parts := make([]*client.Future[arrow.RecordBatch], len(s.Keys))
		for i, k := range s.Keys {
			key, err := task.KeyOf(k)
			if err != nil {
				return nil, fmt.Errorf("frame: key %q: %w", k, err)
			}
			parts[i] = client.FutureOf[arrow.RecordBatch](b.c, key)
		}
		f, err := Of(b.ctx, b.c, parts)
		if err != nil {
			return nil, err
		}
		b.frames = append(b.frames, f)
		return f.Query(), nil
	case "sql":
		tables := map[string]*Query{}
		for name, steps := range s.Tables {
			var err error
			if tables[name], err = b.query(steps); err != nil {
				return nil, err
			}
		}
		return SQL(b.ctx, b.c, s.Text, tables)
	}
	return nil, fmt.Errorf("frame: a query cannot begin with %q", s.Verb)
}

func (b *remoteBuilder) scan(s *remoteStep) (*Query, error) {
	var schema *arrow.Schema
	if s.Schema != nil {
		var err error
		if schema, err = decodeSchema(s.Schema); err != nil {
			return nil, err
		}
	}
	switch s.Format {
	case "parquet":
		return ScanParquet(b.ctx, b.c, s.Path, ParquetOptions{Split: s.Split}), nil
	case "csv":
		return ScanCSV(b.ctx, b.c, s.Path, CSVOptions{Block: s.Split, Schema: schema}), nil
	case "ndjson":
		return ScanNDJSON(b.ctx, b.c, s.Path, NDJSONOptions{Block: s.Split, Schema: schema}), nil
	case "ipc":
		return ScanIPC(b.ctx, b.c, s.Path), nil
	}
	return nil, fmt.Errorf("frame: unknown format %q", s.Format)
}

var remoteJoins = map[string]JoinKind{"inner": InnerJoin, "left": LeftJoin, "right": RightJoin, "full": FullJoin,
	"semi": SemiJoin, "anti": AntiJoin, "cross": CrossJoin}

// apply applies a verb.
func (b *remoteBuilder) apply(q *Query, s *remoteStep) (*Query, error) {
	exprs, err := remoteExprs(s.Exprs)
	if err != nil {
		return nil, err
	}
	aggs, err := remoteAggs(s.Aggs)
	if err != nil {
		return nil, err
	}
	keys, err := remoteOrder(s.Order)
	if err != nil {
		return nil, err
	}
	switch s.Verb {
	case "filter":
		for _, e := range exprs {
			q = q.Filter(e)
		}
		return q, nil
	case "select":
		return q.Select(exprs...), nil
	case "with":
		return q.With(exprs...), nil
	case "drop":
		return q.Drop(s.Names...), nil
	case "rename":
		for i := 0; i+1 < len(s.Names); i += 2 {
			q = q.Rename(s.Names[i], s.Names[i+1])
		}
		return q, nil
	case "group":
		return q.GroupBy(exprs...).Agg(aggs...), nil
	case "agg":
		return q.Agg(aggs...), nil
	case "sort":
		return q.Sort(keys...), nil
	case "top":
		return q.Top(s.N, keys...), nil
	case "limit":
		return q.Limit(s.N), nil
	case "offset":
		return q.Offset(s.N), nil
	case "distinct":
		return q.Distinct(s.Names...), nil
	case "sample":
		return q.Sample(s.Fraction, s.Seed), nil
	case "describe":
		return q.Describe(), nil
	case "union", "join":
		return b.combine(q, s)
	}
	return nil, fmt.Errorf("frame: unknown verb %q", s.Verb)
}

// combine applies a verb of several queries.
func (b *remoteBuilder) combine(q *Query, s *remoteStep) (*Query, error) {
	others := make([]*Query, len(s.Others))
	for i, steps := range s.Others {
		var err error
		if others[i], err = b.query(steps); err != nil {
			return nil, err
		}
	}
	if s.Verb == "union" {
		return q.Union(others...), nil
	}
	kind, ok := remoteJoins[s.Kind]
	if !ok || len(others) != 1 {
		return nil, fmt.Errorf("frame: join of kind %q with %d queries", s.Kind, len(others))
	}
	left, err := remoteExprs(s.LeftOn)
	if err != nil {
		return nil, err
	}
	right, err := remoteExprs(s.RightOn)
	if err != nil {
		return nil, err
	}
	return q.Join(others[0], JoinOptions{Kind: kind, On: s.Names, LeftOn: left, RightOn: right, Suffix: s.Suffix}), nil
}

func remoteExprs(in []remoteExpr) ([]Expr, error) {
	out := make([]Expr, len(in))
	for i := range in {
		var err error
		if out[i], err = in[i].expr(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// expr returns the expression. Operations and numbers of operands are checked where it is used.
func (x *remoteExpr) expr() (Expr, error) {
	args, err := remoteExprs(x.Args)
	if err != nil {
		return Expr{}, err
	}
	out := Expr{Op: expr.Op(x.Op), Name: x.Name, Type: x.Type, Args: args}
	if x.Value == nil {
		return out, nil
	}
	d := json.NewDecoder(bytes.NewReader(x.Value))
	d.UseNumber()
	if err := d.Decode(&out.Value); err != nil {
		return out, fmt.Errorf("frame: constant %s: %w", x.Value, err)
	}
	switch v := out.Value.(type) {
	case nil, bool, string:
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			out.Value = n
		} else if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			out.Value = n
		} else if out.Value, err = v.Float64(); err != nil {
			return out, fmt.Errorf("frame: constant %s: %w", x.Value, err)
		}
	default:
		return out, fmt.Errorf("frame: constant %.100s is no bool, number or text", x.Value)
	}
	return out, nil
}

func remoteAggs(in []remoteAgg) ([]Agg, error) {
	out := make([]Agg, len(in))
	for i, a := range in {
		x := plan.AggExpr{Func: a.Func, Name: a.Name, Param: a.Param}
		if a.Arg != nil {
			e, err := a.Arg.expr()
			if err != nil {
				return nil, err
			}
			x.Arg = &e
		}
		out[i] = Agg{x}
	}
	return out, nil
}

func remoteOrder(in []remoteKey) ([]SortKey, error) {
	out := make([]SortKey, len(in))
	for i, k := range in {
		e, err := k.Expr.expr()
		if err != nil {
			return nil, err
		}
		out[i] = SortKey{plan.OrderExpr{Expr: e, Descending: k.Desc, NullsFirst: k.NullsFirst}}
	}
	return out, nil
}
