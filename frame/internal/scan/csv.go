package scan

import (
	"context"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/files"
)

// Dialect specifies the form of CSV files. The zero value has the defaults.
type Dialect struct {
	// NoHeader indicates that the first line has data.
	NoHeader bool
	// Comma separates the columns (default ',').
	Comma rune
	// Null are the texts for nulls, in addition to the empty text (default NA, NaN, null, NULL, None).
	Null []string
}

func (d Dialect) withDefaults() Dialect {
	if d.Comma == 0 {
		d.Comma = ','
	}
	if d.Null == nil {
		d.Null = []string{"NA", "NaN", "null", "NULL", "None"}
	}
	return d
}

// readCSV infers the schema of a file, if it is requested.
func (h *Head) readCSV(f *os.File, r HeadRequest) error {
	if !r.First || r.Options.Schema != nil {
		return nil
	}
	schema, err := inferCSV(f, h.Stamp.Size, r.Options)
	if err != nil {
		return err
	}
	h.Schema, err = EncodeSchema(schema)
	return err
}

// checkCSVSchema returns an error for types of columns that CSV files cannot have.
func checkCSVSchema(s *arrow.Schema) error {
	for _, f := range s.Fields() {
		if _, err := csvColumn(f, heap, nil); err != nil {
			return err
		}
	}
	return nil
}

// Uncounted returns the blocks of CSV files whose quotes must be counted, by OddQuotes, before the source is read: all
// but the last of each file. The second result has the number of the split after each.
func (src *Source) Uncounted() (blocks []Split, after []int) {
	if src.Format != CSV {
		return nil, nil
	}
	for i := 1; i < len(src.Splits); i++ {
		if before := src.Splits[i-1]; before.Path == src.Splits[i].Path {
			blocks, after = append(blocks, before), append(after, i)
		}
	}
	return blocks, after
}

// MarkQuotes marks the blocks that begin or end within quotes, from the results of OddQuotes for those of Uncounted.
func (src *Source) MarkQuotes(odd []bool) {
	_, after := src.Uncounted()
	for n, i := range after {
		src.Splits[i].Quoted[0] = src.Splits[i-1].Quoted[0] != odd[n]
		src.Splits[i-1].Quoted[1] = src.Splits[i].Quoted[0]
	}
}

// OddQuotes reports whether a block has an odd number of quotes, so that the next one begins within quotes. A quote
// within quotes is written twice, and unquoted texts have none.
func OddQuotes(ctx context.Context, s Split) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	f, err := files.OpenStamped(s.Path, s.Stamp, s.Partition)
	if err != nil {
		return false, err
	}
	defer f.Close()
	n, err := countQuotes(io.NewSectionReader(f, s.Spans[0].From, s.Spans[0].To-s.Spans[0].From))
	if err != nil {
		return false, s.located(err)
	}
	return n%2 == 1, nil
}
