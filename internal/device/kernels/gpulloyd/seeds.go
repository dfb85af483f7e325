package gpulloyd

import (
	"context"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Distances are squared distances of all rows, on the device, and the sums of every 256 rows of a part.
type Distances struct {
	r    *Rows
	at   []*mem.Buffer // by part
	sums *mem.Buffer   // of all parts, one after the other
	host []float64     // sums, after fetch
}

// NewDistances returns Distances for all rows.
func (r *Rows) NewDistances(ctx context.Context) (*Distances, error) {
	d := &Distances{r: r}
	blocks := 0
	for _, p := range r.parts {
		b, err := r.cfg.Memory.Alloc(ctx, 8*p.rows)
		if err != nil {
			d.Release()
			return nil, err
		}
		d.at = append(d.at, b)
		blocks += p.blocks()
	}
	var err error
	if d.sums, err = r.cfg.Memory.Alloc(ctx, 8*max(1, blocks)); err != nil {
		d.Release()
		return nil, err
	}
	return d, nil
}

// blocks returns the number of blocks of 256 rows of a part.
func (p *part) blocks() int { return (p.rows + threads - 1) / threads }

// Release frees the memory.
func (d *Distances) Release() {
	for _, b := range append(d.at, d.sums) {
		if b != nil {
			b.Release()
		}
	}
	d.at, d.sums = nil, nil
}

// ToPoint sets the distances to those of a point, or of closest where those are smaller (nil: none).
func (d *Distances) ToPoint(ctx context.Context, point []float64, closest *Distances) error {
	return d.set(ctx, point, false, closest)
}

// ToCenters sets the distances to those of each row's own center.
func (d *Distances) ToCenters(ctx context.Context, centers []float64) error {
	return d.set(ctx, centers, true, nil)
}

func (d *Distances) set(ctx context.Context, points []float64, labels bool, closest *Distances) error {
	r := d.r
	at, err := r.upload(ctx, points)
	if err != nil {
		return err
	}
	d.host = nil
	before := 0
	for i, p := range r.parts {
		args := []cuda.Arg{cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Val(int32(r.d)), cuda.Val(at)}
		if labels {
			args = append(args, cuda.In(p.labels))
		} else {
			args = append(args, cuda.Val(uint64(0)))
		}
		if closest != nil {
			args = append(args, cuda.In(closest.at[i]))
		} else {
			args = append(args, cuda.Val(uint64(0)))
		}
		args = append(args, cuda.Out(d.at[i]), cuda.Val(uint64(d.sums.Addr())+uint64(8*before)), cuda.AlsoOut(d.sums))
		if err := r.launch("kmeans_distances", grid{rows: p.rows, all: true}, p.also(args, r.inputs)...); err != nil {
			return err
		}
		before += p.blocks()
	}
	return nil
}

// fetch copies the sums to the host.
func (d *Distances) fetch(ctx context.Context) error {
	if d.host != nil {
		return nil
	}
	n := 0
	for _, p := range d.r.parts {
		n += p.blocks()
	}
	got, err := d.r.fetch(ctx, d.sums, n)
	if err != nil {
		return err
	}
	d.host = append(make([]float64, 0, n), got...)
	return nil
}

// part returns the sums of a part.
func (d *Distances) part(part int) []float64 {
	at := 0
	for _, p := range d.r.parts[:part] {
		at += p.blocks()
	}
	return d.host[at : at+d.r.parts[part].blocks()]
}

// Sum returns the sum of a part's distances.
func (d *Distances) Sum(ctx context.Context, part int) (sum float64, err error) {
	if err := d.fetch(ctx); err != nil {
		return 0, err
	}
	for _, v := range d.part(part) {
		sum += v
	}
	return sum, nil
}

// Find returns the row of a part at which the sum of the distances reaches a value, the last one if it never does.
func (d *Distances) Find(ctx context.Context, part int, value float64) (int, error) {
	if err := d.fetch(ctx); err != nil {
		return 0, err
	}
	rows := d.r.parts[part].rows
	sum, block := 0.0, 0
	for sums := d.part(part); block < len(sums)-1 && sum+sums[block] < value; block++ {
		sum += sums[block]
	}
	from := block * threads
	n := min(rows-from, threads)
	v := d.at[part].Slice(8*from, 8*n)
	defer v.Release()
	got, err := d.r.fetch(ctx, v, n)
	if err != nil {
		return 0, err
	}
	for i, e := range got {
		if sum += e; sum >= value {
			return from + i, nil
		}
	}
	return from + n - 1, nil
}

// Host returns the distances of a part in host memory. They are valid until the next call of Rows.
func (d *Distances) Host(ctx context.Context, part int) ([]float64, error) {
	return d.r.fetch(ctx, d.at[part], d.r.parts[part].rows)
}
