package kmeansbench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
)

// groups is the number of clusters of points in the data. It differs from all K, so that no fit converges early.
const groups = 20

// size returns the size of a number in bytes.
func size(dtype string) int {
	if dtype == "float32" {
		return 4
	}
	return 8
}

// generate writes the data to a file that both sides read: column by column, plain numbers. Clusters overlap, so that
// labels keep changing.
func generate(path, dtype string, rows, features int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	for j := range features {
		r := rand.New(rand.NewPCG(1, uint64(j)))
		var middle [groups]float64
		for g := range middle {
			middle[g] = 2 * r.NormFloat64()
		}
		of := rand.New(rand.NewPCG(2, 2)) // equal for all columns
		var b [8]byte
		for range rows {
			v := middle[of.IntN(groups)] + 1.5*r.NormFloat64()
			if dtype == "float32" {
				binary.LittleEndian.PutUint32(b[:4], math.Float32bits(float32(v)))
			} else {
				binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
			}
			if _, err := w.Write(b[:size(dtype)]); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// piece is the range of rows of one partition in the file.
type piece struct {
	Path           string
	Type           string
	Rows, Features int
	From, To       int
}

func (p piece) schema() *arrow.Schema {
	t := arrow.DataType(arrow.PrimitiveTypes.Float64)
	if p.Type == "float32" {
		t = arrow.PrimitiveTypes.Float32
	}
	fields := make([]arrow.Field, p.Features)
	for j := range fields {
		fields[j] = arrow.Field{Name: fmt.Sprintf("x%d", j), Type: t}
	}
	return arrow.NewSchema(fields, nil)
}

// load reads a partition on a worker.
var load = client.Func("millstream.bench.kmeans.load", func(_ context.Context, p piece) (arrow.RecordBatch, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if p.From < 0 || p.To < p.From || p.To > p.Rows {
		return nil, fmt.Errorf("invalid rows %d to %d of %d", p.From, p.To, p.Rows)
	}
	schema, width := p.schema(), size(p.Type)
	columns := make([]arrow.Array, p.Features)
	for j := range columns {
		b := make([]byte, (p.To-p.From)*width)
		if _, err := io.ReadFull(io.NewSectionReader(f, int64(j*p.Rows+p.From)*int64(width), int64(len(b))),
			b); err != nil {
			return nil, err
		}
		d := array.NewData(schema.Field(j).Type, p.To-p.From, []*memory.Buffer{nil, memory.NewBufferBytes(b)}, nil, 0,
			0)
		columns[j] = array.MakeFromData(d)
		d.Release()
	}
	return array.NewRecordBatch(schema, columns, int64(p.To-p.From)), nil
})
