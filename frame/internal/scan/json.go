package scan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
)

// maxLine bounds the length of a line of an NDJSON file.
const maxLine = 64 << 20

// JSONColumn is a column of the beginning of an NDJSON file, with the kinds of its values.
type JSONColumn struct {
	Name string
	Kind TextKind
}

// readJSON infers the columns of a file, if no schema is specified.
func (h *Head) readJSON(f *os.File, r HeadRequest) error {
	if r.Options.Schema != nil {
		return nil
	}
	sample := min(h.Stamp.Size, r.Options.Sample)
	end, err := nextLine(f, sample, h.Stamp.Size)
	if err != nil {
		return err
	}
	at := map[string]int{}
	var set []int // number of the last line with a value, for each column
	rows := 0
	err = eachLine(io.NewSectionReader(f, 0, end), func(line []byte, _ int) error {
		l := jsonLine{b: line}
		rows++
		return l.fields(func(name []byte, v jsonValue) error {
			i, ok := at[string(name)]
			if !ok {
				i = len(h.Columns)
				at[string(name)] = i
				h.Columns = append(h.Columns, JSONColumn{Name: string(name)})
				set = append(set, 0)
			}
			if set[i] == rows {
				return errTwice(name)
			}
			set[i] = rows
			h.Columns[i].Kind.observeJSON(v)
			return nil
		})
	})
	if rows > 0 {
		h.RowBytes = float64(end) / float64(rows)
	}
	return err
}

// errTwice returns the error of a line with two fields of one name.
func errTwice(name []byte) error { return fmt.Errorf("column %q has two values", name) }

// observeJSON takes a value into account.
func (k *TextKind) observeJSON(v jsonValue) {
	switch v.kind {
	case jsonNull:
		return
	case jsonBool:
		k.Some, k.NotInt, k.NotFloat, k.NotTime = true, true, true, true
	case jsonNumber:
		k.observe(v.view(), nil)
		k.NotBool, k.NotTime = true, true
	case jsonString:
		k.Some, k.NotInt, k.NotBool = true, true, true
		if !notFinite(v.view()) {
			k.NotFloat = true
		}
		if _, err := parseTime(v.view()); err != nil {
			k.NotTime = true
		}
	case jsonNested:
		*k = TextKind{Some: true, NotInt: true, NotFloat: true, NotBool: true, NotTime: true}
	}
}

// notFinite reports whether a text is a float for which JSON has no number.
func notFinite(s string) bool { return s == "NaN" || s == "Infinity" || s == "-Infinity" }

// jsonSchema returns the columns of all files, in the order in which they appear first, of types that fit all values.
func jsonSchema(heads []Head) (*arrow.Schema, error) {
	at := map[string]int{}
	var columns []JSONColumn
	for _, h := range heads {
		for _, c := range h.Columns {
			i, ok := at[c.Name]
			if !ok {
				at[c.Name] = len(columns)
				columns = append(columns, c)
				continue
			}
			columns[i].Kind.merge(c.Kind)
		}
	}
	if len(columns) == 0 {
		return nil, fault.Schemaf(-1, "file %s has no fields at its beginning; set NDJSONOptions.Schema", heads[0].Path)
	}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Kind.dataType(), Nullable: true}
	}
	return arrow.NewSchema(fields, nil), nil
}

// nextLine returns the offset of the first line that begins at or after at.
func nextLine(r io.ReaderAt, at, size int64) (int64, error) {
	if at == 0 || at >= size {
		return min(at, size), nil
	}
	b := bufio.NewReaderSize(io.NewSectionReader(r, at-1, size-at+1), 1<<12)
	for at--; ; {
		part, err := b.ReadSlice('\n')
		at += int64(len(part))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return size, nil
		default:
			return at, err
		}
	}
}

// eachLine calls take with each line that is not empty, without its end, and its number. Errors of take get the number.
func eachLine(r io.Reader, take func(line []byte, n int) error) error {
	b := bufio.NewReaderSize(r, 1<<16)
	var long []byte
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) {
				if line, err = b.ReadSlice('\n'); len(long)+len(line) > maxLine {
					return fmt.Errorf("line %d is longer than %d MiB", n, maxLine>>20)
				}
				long = append(long, line...)
			}
			line = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := take(line, n); err != nil {
				if errors.Is(err, errTaken) {
					return err
				}
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// errTaken wraps an error of the consumer of batches, which is not one of a line.
var errTaken = errors.New("consumer")

// takenError is an error of the consumer.
type takenError struct{ error }

func (e takenError) Is(target error) bool { return target == errTaken }
func (e takenError) Unwrap() error        { return e.error }

// readJSON reads the lines that begin in the span of a split.
func readJSON(f *os.File, s Split, p projection, opts ReadOptions, take func(arrow.RecordBatch) error) error {
	if len(s.Spans) != 1 {
		return fmt.Errorf("frame: split of %d spans of an NDJSON file, want one", len(s.Spans))
	}
	at, err := nextLine(f, s.Spans[0].From, s.Stamp.Size)
	if err != nil {
		return err
	}
	end, err := nextLine(f, s.Spans[0].To, s.Stamp.Size)
	if err != nil {
		return err
	}
	rows, err := newJSONRows(p, s.Strict, opts.BatchRows, take)
	if err != nil {
		return err
	}
	defer rows.b.Release()
	err = eachLine(io.NewSectionReader(f, at, max(0, end-at)), rows.line)
	var taken takenError
	if errors.As(err, &taken) {
		return taken.error
	}
	if err != nil {
		return inBlock(err, at)
	}
	return rows.flush()
}

// WriteNDJSON writes a batch as lines of JSON objects.
func WriteNDJSON(b arrow.RecordBatch, path string) (files.Written, error) {
	return write(b, path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<16)
		if err := writeJSON(w, b); err != nil {
			return err
		}
		return w.Flush()
	})
}
