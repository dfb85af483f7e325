package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame/internal/gpu"
	hashjoin "go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// columnStep selects the columns of device batches that a task uses.
type columnStep struct {
	Names  []string // in the batches
	Schema []byte   // encoded: the same columns, with the names of the plan
}

// joinStep specifies a join of device batches. Columns have the names of the plan.
type joinStep struct {
	Kind                hashjoin.Kind
	Left, Right         columnStep
	LeftKeys, RightKeys []string
	LeftOut, RightOut   []string
	Schema              []byte // encoded, of the result
}

// groupStep specifies a group-by of device batches.
type groupStep struct {
	In     columnStep
	Keys   []string
	Aggs   []plan.Agg
	Schema []byte // encoded, of the result
}

// Functions of queries on devices that workers run.
var (
	// deviceKernels reports whether the GPU of the worker runs the kernels of package gpu.
	deviceKernels = client.Func("millstream.frame.device-kernels", func(ctx context.Context, _ string) (bool, error) {
		_, err := currentEngine(ctx)
		if err != nil && !errors.Is(err, errNoKernels) {
			return false, err
		}
		return err == nil, nil
	})
	// deviceSplit divides a batch into n buckets by the hash of keys.
	deviceSplit = client.Func4("millstream.frame.device-split", func(ctx context.Context, d wire.Dict, in columnStep,
		keys []string, n int) ([]wire.Dict, error) {
		var out []wire.Dict
		err := withTables(ctx, [][]wire.Dict{{d}}, []columnStep{in}, func(e *gpu.Engine, t []*gpu.Table) error {
			at, err := indices(t[0].Schema, keys)
			if err != nil {
				return err
			}
			parts, err := e.Partition(ctx, t[0], at, n)
			if err != nil {
				return err
			}
			defer func() {
				for _, p := range parts {
					p.Release()
				}
			}()
			for _, p := range parts {
				v, err := deviceValue(ctx, e, p, p.Schema)
				if err != nil {
					releaseValues(out)
					return err
				}
				out = append(out, v)
			}
			return nil
		})
		return out, err
	})
	deviceBucket = client.Func2("millstream.frame.device-bucket", func(_ context.Context, list []wire.Dict,
		i int) (wire.Dict, error) {
		if i < 0 || i >= len(list) {
			return nil, fmt.Errorf("frame: no bucket %d of %d", i, len(list))
		}
		b, err := deviceBatch(list[i])
		if err != nil {
			return nil, err
		}
		for j := range b.columns {
			for _, a := range b.columns[j].arrays() {
				if *a != nil {
					*a = (*a).Retain()
				}
			}
		}
		return b.value()
	})
	deviceGroupPart = client.Func2("millstream.frame.device-group", func(ctx context.Context, list []wire.Dict,
		g groupStep) (out wire.Dict, err error) {
		err = withTables(ctx, [][]wire.Dict{list}, []columnStep{g.In}, func(e *gpu.Engine, t []*gpu.Table) error {
			keys, specs, err := plan.Specs(t[0].Schema, g.Keys, g.Aggs)
			if err != nil {
				return err
			}
			x, err := e.Group(ctx, t[0], keys, specs)
			if err != nil {
				return err
			}
			defer x.Release()
			out, err = deviceResult(ctx, e, x, g.Schema)
			return err
		})
		return out, err
	})
	deviceJoinPart = client.Func3("millstream.frame.device-join", func(ctx context.Context, left, right []wire.Dict,
		j joinStep) (out wire.Dict, err error) {
		err = withTables(ctx, [][]wire.Dict{left, right}, []columnStep{j.Left, j.Right},
			func(e *gpu.Engine, t []*gpu.Table) error {
				o := gpu.JoinOptions{Kind: j.Kind}
				for _, c := range []struct {
					t     *gpu.Table
					names []string
					at    *[]int
				}{{t[0], j.LeftKeys, &o.LeftKeys}, {t[1], j.RightKeys, &o.RightKeys}, {t[0], j.LeftOut, &o.Left},
					{t[1], j.RightOut, &o.Right}} {
					var err error
					if *c.at, err = indices(c.t.Schema, c.names); err != nil {
						return err
					}
				}
				x, err := e.Join(ctx, t[0], t[1], o)
				if err != nil {
					return err
				}
				defer x.Release()
				out, err = deviceResult(ctx, e, x, j.Schema)
				return err
			})
		return out, err
	})
)

// errNoKernels is returned on workers whose device runs no kernels.
var errNoKernels = errors.New("frame: device of the worker runs no kernels")

// currentEngine returns an engine for the GPU of the worker that runs the task of ctx. The caller closes it.
func currentEngine(ctx context.Context) (*gpu.Engine, error) {
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, err
	}
	s := cuda.StreamOf(d.Stream)
	if s == nil || cuda.Available() != nil {
		return nil, errNoKernels
	}
	return gpu.New(gpu.Config{Device: d.Ordinal, Memory: d.Memory, Pinned: d.Pinned, Stream: s})
}

// withTables runs a function on tables, one for each list of batches, and waits for its work on the device.
func withTables(ctx context.Context, lists [][]wire.Dict, columns []columnStep,
	f func(e *gpu.Engine, t []*gpu.Table) error) (err error) {
	e, err := currentEngine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	tables := make([]*gpu.Table, 0, len(lists))
	defer func() {
		for _, t := range tables {
			t.Release()
		}
	}()
	for i, list := range lists {
		t, err := importTable(ctx, e, list, columns[i])
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	if err := f(e, tables); err != nil {
		return err
	}
	return e.Wait(ctx)
}

// importTable returns columns of batches as one table.
func importTable(ctx context.Context, e *gpu.Engine, list []wire.Dict, c columnStep) (*gpu.Table, error) {
	schema, err := decodeSchema(c.Schema)
	if err != nil {
		return nil, err
	}
	var pieces []*gpu.Table
	defer func() {
		for _, p := range pieces {
			p.Release()
		}
	}()
	for _, d := range list {
		err := withBatch(ctx, d, func(b *DeviceBatch) error {
			arrays := make([]gpu.Array, len(c.Names))
			for i, name := range c.Names {
				x, err := b.Named(name)
				if err != nil {
					return err
				}
				arrays[i] = gpu.Array{Values: x.Values, Validity: x.Validity}
			}
			t, err := e.Import(ctx, schema, b.rows, arrays)
			if err == nil {
				pieces = append(pieces, t)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(pieces) == 1 {
		t := pieces[0]
		pieces = nil
		return t, nil
	}
	return e.Concat(ctx, schema, pieces)
}

// deviceResult returns a table as the result of a task, with a schema of the same types.
func deviceResult(ctx context.Context, e *gpu.Engine, t *gpu.Table, encoded []byte) (wire.Dict, error) {
	schema, err := decodeSchema(encoded)
	if err != nil {
		return nil, err
	}
	return deviceValue(ctx, e, t, schema)
}

func deviceValue(ctx context.Context, e *gpu.Engine, t *gpu.Table, schema *arrow.Schema) (wire.Dict, error) {
	arrays, err := e.Export(ctx, t)
	if err != nil {
		return nil, err
	}
	columns := make([]DeviceColumn, len(arrays))
	for i, a := range arrays {
		columns[i] = DeviceColumn{Values: a.Values, Validity: a.Validity}
	}
	b, err := NewDeviceBatch(schema, t.Rows, columns)
	if err != nil {
		for _, c := range columns {
			c.release()
		}
		return nil, err
	}
	return b.value()
}

func (c DeviceColumn) release() {
	c.Values.Release()
	if c.Validity != nil {
		c.Validity.Release()
	}
}

// releaseValues releases values that are not returned.
func releaseValues(list []wire.Dict) {
	for _, d := range list {
		if b, err := deviceBatch(d); err == nil {
			b.release()
		}
	}
}

// indices returns the places of columns in a schema.
func indices(s *arrow.Schema, names []string) ([]int, error) {
	out := make([]int, len(names))
	for i, name := range names {
		var err error
		if out[i], err = columnIndex(s, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
