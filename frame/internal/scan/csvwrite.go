package scan

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/files"
)

// WriteCSV writes a batch with a header. Nulls are empty, and floats have as many digits as are needed to read the same
// number again.
func WriteCSV(b arrow.RecordBatch, path string) (files.Written, error) {
	return write(b, path, func(f *os.File) error {
		buffered := bufio.NewWriterSize(f, 1<<16)
		w := csvWriter{csv.NewWriter(struct{ io.Writer }{buffered}), buffered}
		line := make([]string, b.NumCols())
		texts := make([]func(row int) string, b.NumCols())
		for i := range line {
			line[i] = b.ColumnName(i)
			texts[i] = csvText(b.Column(i))
		}
		if err := w.Write(line); err != nil {
			return err
		}
		for row := range int(b.NumRows()) {
			for i := range line {
				if line[i] = ""; b.Column(i).IsValid(row) {
					line[i] = texts[i](row)
				}
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
		w.Flush()
		return errors.Join(w.Error(), buffered.Flush())
	})
}

// write writes a batch as a file. Panics of the Arrow library become errors.
func write(b arrow.RecordBatch, path string, to func(f *os.File) error) (files.Written, error) {
	n, err := files.Create(path, func(f *os.File) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("frame: %v", p)
			}
		}()
		return to(f)
	})
	return files.Written{Path: path, Rows: b.NumRows(), Bytes: n}, err
}

// csvWriter writes a line with one empty field as "", because readers skip empty lines.
type csvWriter struct {
	*csv.Writer
	to *bufio.Writer
}

func (w csvWriter) Write(line []string) error {
	if len(line) != 1 || line[0] != "" {
		return w.Writer.Write(line)
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	_, err := w.to.WriteString("\"\"\n")
	return err
}

// csvText returns a function that returns the values of a column as text.
func csvText(c arrow.Array) func(row int) string {
	switch a := c.(type) {
	case *array.Float64:
		return func(row int) string { return strconv.FormatFloat(a.Value(row), 'g', -1, 64) }
	case *array.Float32:
		return func(row int) string { return strconv.FormatFloat(float64(a.Value(row)), 'g', -1, 32) }
	case *array.Int64:
		return func(row int) string { return strconv.FormatInt(a.Value(row), 10) }
	case *array.String:
		return a.Value
	case *array.LargeString:
		return a.Value
	case *array.Binary:
		return func(row int) string { return string(a.Value(row)) }
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit
		return func(row int) string { return a.Value(row).ToTime(unit).Format(time.RFC3339Nano) }
	}
	return c.ValueStr
}
