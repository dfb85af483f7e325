package scan

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/fault"
)

func newCSVReader(r io.Reader, d Dialect) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma = d.Comma
	c.ReuseRecord = true
	c.FieldsPerRecord = -1 // counted here, for a better error
	return c
}

// header returns the names of the columns of a file, and the offset of the lines after the header.
func (d Dialect) header(r io.Reader) (_ []string, end int64, _ error) {
	c := newCSVReader(r, d)
	first, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, 0, errors.New("file is empty, without a header")
	}
	if err != nil {
		return nil, 0, err
	}
	if !d.NoHeader {
		end = c.InputOffset()
	}
	names := make([]string, len(first))
	for i, name := range first {
		if names[i] = name; d.NoHeader {
			names[i] = fmt.Sprintf("f%d", i)
		}
	}
	if !d.NoHeader {
		names[0] = strings.TrimPrefix(names[0], "\ufeff")
	}
	return names, end, nil
}

// readCSV reads the lines that begin in the span of a split.
func readCSV(f *os.File, s Split, p projection, opts ReadOptions, take func(arrow.RecordBatch) error) error {
	if len(s.Spans) != 1 {
		return fmt.Errorf("frame: split of %d spans of a CSV file, want one", len(s.Spans))
	}
	span := s.Spans[0]
	names, begin, err := s.Dialect.header(io.NewSectionReader(f, 0, s.Stamp.Size))
	if err != nil {
		return err
	}
	columns, err := csvOrder(p.out, names)
	if err != nil {
		return &fault.Error{Kind: fault.ErrSchema, Path: s.Path, Partition: s.Partition, Err: err}
	}
	at, err := lineStart(f, span.From, s.Stamp.Size, s.Quoted[0])
	if err != nil {
		return err
	}
	end, err := lineStart(f, span.To, s.Stamp.Size, s.Quoted[1])
	if err != nil {
		return err
	}
	if at > 0 {
		at = max(at, begin) // empty lines before the header may be longer than a block
	}
	c := newCSVReader(bufio.NewReaderSize(io.NewSectionReader(f, at, max(0, end-at)), 1<<16), s.Dialect)
	b := array.NewRecordBuilder(heap, p.out)
	defer b.Release()
	appenders := make([]csvAppender, len(columns))
	for i := range appenders {
		if appenders[i], err = csvAppenderOf(b.Field(i), p.out.Field(i), s.Dialect.Null); err != nil {
			return err
		}
	}
	rows := 0
	flush := func() error {
		out := b.NewRecordBatch()
		if len(columns) == 0 {
			out = array.NewRecordBatch(p.out, nil, int64(rows))
		}
		rows = 0
		return take(out)
	}
	for first := at == 0 && !s.Dialect.NoHeader; ; first = false {
		line, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return inBlock(err, at)
		}
		if first {
			continue
		}
		if len(line) != len(names) {
			n, _ := c.FieldPos(0)
			return fmt.Errorf("line %d has %d columns, the header %d", n, len(line), len(names))
		}
		for i, from := range columns {
			if err := appenders[i](line[from]); err != nil {
				n, _ := c.FieldPos(from)
				return inBlock(fmt.Errorf("line %d, column %q: %w", n, names[from], err), at)
			}
		}
		if rows++; rows == opts.BatchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// inBlock adds the offset from which lines are counted to an error.
func inBlock(err error, at int64) error {
	if at == 0 {
		return err
	}
	return fmt.Errorf("%w (lines are counted from byte %d on)", err, at)
}

// csvOrder returns the index in the file of each column of the schema.
func csvOrder(s *arrow.Schema, names []string) ([]int, error) {
	out := make([]int, s.NumFields())
	for i, f := range s.Fields() {
		out[i] = -1
		for j, name := range names {
			if name != f.Name {
				continue
			}
			if out[i] >= 0 {
				return nil, fmt.Errorf("two columns named %q", name)
			}
			out[i] = j
		}
		if out[i] < 0 {
			return nil, fmt.Errorf("no column %q among %s%s", f.Name,
				strings.Join(names[:min(len(names), 8)], ", "), commaHint(names))
		}
	}
	return out, nil
}

func countQuotes(r io.Reader) (n int, err error) {
	b := make([]byte, 1<<18)
	for {
		k, err := r.Read(b)
		n += bytes.Count(b[:k], quote)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

var quote = []byte{'"'}

// lineStart returns the offset of the first line that begins at or after at, which is within quotes or not.
func lineStart(r io.ReaderAt, at, size int64, quoted bool) (int64, error) {
	if at == 0 || at >= size {
		return min(at, size), nil
	}
	// A line begins after a line break, which may be the byte just before at.
	b := bufio.NewReaderSize(io.NewSectionReader(r, at-1, size-at+1), 1<<12)
	if before, err := b.Peek(1); err == nil && before[0] == '"' {
		quoted = !quoted
	}
	for at--; ; {
		part, err := b.ReadSlice('\n')
		at += int64(len(part))
		quoted = quoted != (bytes.Count(part, quote)%2 == 1)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return 0, err
		case !quoted:
			return at, nil
		}
	}
}

// inferCSV returns types that fit the beginning of a file.
func inferCSV(r io.ReaderAt, size int64, opts Options) (*arrow.Schema, error) {
	names, _, err := opts.Dialect.header(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, err
	}
	if err := checkComma(io.NewSectionReader(r, 0, size), opts.Dialect); err != nil {
		return nil, err
	}
	sample := min(size, opts.Sample)
	quotes, err := countQuotes(io.NewSectionReader(r, 0, sample))
	if err != nil {
		return nil, err
	}
	end, err := lineStart(r, sample, size, quotes%2 == 1)
	if err != nil {
		return nil, err
	}
	c := newCSVReader(io.NewSectionReader(r, 0, end), opts.Dialect)
	kinds := make([]TextKind, len(names))
	for first := !opts.Dialect.NoHeader; ; first = false {
		line, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(names) && i < len(line) && !first; i++ {
			kinds[i].observe(line[i], opts.Dialect.Null)
		}
	}
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: kinds[i].dataType(), Nullable: true}
	}
	return arrow.NewSchema(fields, nil), nil
}

// checkComma returns an error if the first line is one unquoted column with another common separator in it: the file
// would become one column of text.
func checkComma(r io.Reader, d Dialect) error {
	b := bufio.NewReader(r)
	first, err := b.Peek(4)
	if err != nil && len(first) == 0 {
		return nil
	}
	if strings.HasPrefix(strings.TrimPrefix(string(first), "\ufeff"), `"`) {
		return nil // quoted: intended
	}
	line, err := newCSVReader(b, d).Read()
	if err != nil {
		return err
	}
	if hint := commaHint(line); hint != "" {
		return fmt.Errorf("first line has one column, %q%s (or CSVOptions.Schema, if there is one column)", line[0],
			hint)
	}
	return nil
}

// commaHint returns a hint about CSVOptions.Comma if the only column of a line contains another separator.
func commaHint(line []string) string {
	if len(line) != 1 {
		return ""
	}
	if i := strings.IndexAny(line[0], ";\t|,"); i > 0 {
		return fmt.Sprintf("; if columns are separated by %q, set CSVOptions.Comma", rune(line[0][i]))
	}
	return ""
}
