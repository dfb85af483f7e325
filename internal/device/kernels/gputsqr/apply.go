package gputsqr

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Apply returns columns of the rows of a part, one for each of add: the products of the rows minus mean with the
// weights of the column, plus add, as Apply of tsqr.Part. They are float32 if narrow is set, otherwise float64; the
// caller owns them.
func (t *Table) Apply(ctx context.Context, part int, mean, weights, add []float64, narrow bool) (_ []*mem.Buffer,
	err error) {
	k, p, item := len(add), t.parts[part], 8
	if len(mean) != t.d || len(weights) != k*t.d || k == 0 {
		return nil, fmt.Errorf("gputsqr: %d means and %d weights for %d columns and %d results", len(mean),
			len(weights), t.d, k)
	}
	if narrow {
		item = 4
	}
	var out []*mem.Buffer
	defer func() {
		if err != nil {
			for _, b := range out {
				b.Release()
			}
		}
	}()
	var table []byte
	for range k {
		b, err := t.cfg.Memory.Alloc(ctx, item*p.rows)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
		if p.rows > 0 {
			table = binary.LittleEndian.AppendUint64(table, uint64(b.Addr()))
		}
	}
	if p.rows == 0 {
		return out, nil
	}
	outs, err := t.upload(ctx, table)
	if err != nil {
		return nil, err
	}
	defer outs.Release()
	all := append(append(append(make([]float64, 0, t.d+len(weights)+k), mean...), weights...), add...)
	numbers, err := t.upload(ctx, bytesOf(all))
	if err != nil {
		return nil, err
	}
	defer numbers.Release()
	at := uint64(numbers.Addr())
	args := p.also(cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Val(int32(t.d)), cuda.Val(int32(k)),
		cuda.In(numbers), cuda.Val(at+uint64(8*t.d)), cuda.Val(at+uint64(8*(t.d+len(weights)))), cuda.In(outs),
		cuda.Val(flag(narrow)))
	for _, b := range out {
		args = append(args, cuda.AlsoOut(b))
	}
	const applyBlocks = 4096
	if err := t.launch("tsqr_apply", cuda.LaunchConfig{Grid: cuda.Dim{X: blocks(p.rows, applyBlocks)}},
		args...); err != nil {
		return nil, err
	}
	return out, nil
}
