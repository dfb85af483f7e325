package gpu

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/cuda"
	"go.millstream.dev/frame/internal/order"
	"go.millstream.dev/mem"
)

const digits = 256

// Sort returns the rows of a table in the order of keys. It is stable, as order.Sort.
func (e *Engine) Sort(ctx context.Context, t *Table, keys []order.SortKey) (*Table, error) {
	var l rowList
	defer func() {
		if l.numbers != nil {
			l.numbers.Release()
		}
	}()
	l.n = t.Rows
	for _, k := range slices.Backward(keys) {
		if k.Col < 0 || k.Col >= len(t.Columns) {
			return nil, fmt.Errorf("gpu: sort: no column %d in a table of %d", k.Col, len(t.Columns))
		}
		c := t.Columns[k.Col]
		if err := e.sortBy(ctx, c, &l, "sort_words", k.Desc); err != nil {
			return nil, err
		}
		if c.Valid != nil {
			if err := e.sortBy(ctx, c, &l, "sort_nulls", k.NullsFirst); err != nil {
				return nil, err
			}
		}
	}
	if l.numbers == nil {
		var err error
		if l.numbers, err = e.alloc(ctx, "sort", 4*l.n); err != nil {
			return nil, err
		}
		if err := e.launch("table_sort", "sort_number", l.n, cuda.Val(uint64(l.n)), cuda.Out(l.numbers)); err != nil {
			return nil, err
		}
	}
	return e.gather(ctx, "sort", t, l, false)
}

// sortBy sorts a list of rows by the words of a column; nil numbers are all rows.
func (e *Engine) sortBy(ctx context.Context, c Column, l *rowList, kernel string, flag bool) error {
	words, err := e.alloc(ctx, "sort", 8*l.n)
	if err != nil {
		return err
	}
	defer words.Release()
	option := uint32(0)
	if flag {
		option = 1
	}
	a := c.arg()
	if err := e.launch("table_sort", kernel, l.n, c.uses([]cuda.Arg{cuda.Struct(bytesOf(&a)), optionalIn(l.numbers),
		cuda.Val(uint64(l.n)), cuda.Val(option), cuda.Out(words)})...); err != nil {
		return err
	}
	_, numbers, err := e.radix(ctx, words, l.numbers, l.n, false)
	if err != nil || numbers == l.numbers {
		return err
	}
	if l.numbers != nil {
		l.numbers.Release()
	}
	l.numbers = numbers
	return nil
}

// radix sorts words and the numbers of their rows, nil for 0 to n-1. It returns the numbers in order, with a reference
// unless they are those that were passed because all words are equal, and the words if wanted. words is overwritten.
func (e *Engine) radix(ctx context.Context, words, numbers *mem.Buffer, n int, wanted bool) (_, _ *mem.Buffer,
	err error) {
	var h held
	defer h.release()
	if n == 0 {
		return nil, numbers, nil
	}
	counts, err := h.keep(e.zeroed(ctx, "sort", 8*8*digits))
	if err != nil {
		return nil, nil, err
	}
	if err := e.launch("table_sort", "sort_count", n, cuda.In(words), cuda.Val(uint64(n)),
		cuda.Out(counts)); err != nil {
		return nil, nil, err
	}
	list, err := e.fetch(ctx, counts, 8*digits)
	if err != nil {
		return nil, nil, err
	}
	var passes []int
	for d := range 8 {
		part := list[d*digits : (d+1)*digits]
		if !slices.Contains(part, uint64(n)) {
			passes = append(passes, d)
		}
		var sum uint64
		for i, c := range part {
			part[i] = sum
			sum += c
		}
	}
	if err := e.put(ctx, counts, list); err != nil {
		return nil, nil, err
	}
	tiles := (n + sortTile - 1) / sortTile
	var wordsTo, numbersTo, status *mem.Buffer
	if len(passes) > 0 {
		if wordsTo, err = h.keep(e.alloc(ctx, "sort", 8*n)); err != nil {
			return nil, nil, err
		}
		if status, err = h.keep(e.alloc(ctx, "sort", 4*digits*tiles+256)); err != nil {
			return nil, nil, err
		}
	}
	original := numbers
	var spare *mem.Buffer // numbers of the pass before the last one
	for _, d := range passes {
		if numbersTo = spare; numbersTo == nil {
			if numbersTo, err = h.keep(e.alloc(ctx, "sort", 4*n)); err != nil {
				return nil, nil, err
			}
		}
		if _, err := e.cfg.Stream.Fill(status, 0); err != nil {
			return nil, nil, err
		}
		if err := e.launchAll("table_sort", "sort_pass", tiles, cuda.In(words), optionalIn(numbers),
			cuda.Val(uint64(n)), cuda.Val(uint32(8*d)), cuda.Val(uint64(counts.Addr())+uint64(8*digits*d)),
			cuda.Out(status), cuda.Val(uint64(status.Addr())+256), cuda.Out(wordsTo), cuda.Out(numbersTo),
			cuda.AlsoIn(counts)); err != nil {
			return nil, nil, err
		}
		words, wordsTo = wordsTo, words
		if spare = nil; numbers != original {
			spare = numbers
		}
		numbers = numbersTo
	}
	if numbers != original {
		numbers.Retain()
	}
	if wanted {
		words.Retain()
	}
	return words, numbers, nil
}
