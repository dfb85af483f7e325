package trace

import (
	"context"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
)

// Importer adds spans to a new Store.
type Importer struct {
	Store  *spans.Store
	origin int64 // Unix time in µs
	batch  *spans.Batch
	rows   map[spans.Row]uint32
	spans  int
}

// longest is how long after its origin an imported history may last.
const longest = 8 * 365 * 24 * time.Hour

// NewImporter opens a Store for spans of which the first begins soon after a Unix time in microseconds.
func NewImporter(cfg spans.Config, origin int64) (*Importer, error) {
	cfg.Origin = time.UnixMicro(origin)
	end := cfg.Origin.Add(longest)
	cfg.Now = func() time.Time { return end }
	s, err := spans.Open(cfg)
	if err != nil {
		return nil, err
	}
	return &Importer{Store: s, origin: origin, batch: new(spans.Batch), rows: make(map[spans.Row]uint32)}, nil
}

// maxUnix bounds Unix times in µs, so that they have nanoseconds.
const maxUnix = 1 << 53

// Add adds a span to a row. category is the name of the category; the id and the category of the span do not matter.
// start and stop are Unix times in microseconds. It reports whether the span has a place.
func (im *Importer) Add(row spans.Row, category string, sp spans.Span, start, stop int64) bool {
	row.ID = 0
	id, ok := im.rows[row]
	if !ok {
		if id, ok = im.Store.AddRow(row); !ok {
			return false
		}
		im.rows[row] = id
	}
	if start < 0 || stop < start || stop > maxUnix {
		return false
	}
	sp.Row = id
	sp.Category = im.category(category)
	peer := spans.NoPeer
	if sp.Peer != "" {
		peer = im.Store.Worker(sp.Peer, "")
	}
	var transport uint32
	if sp.Transport != "" {
		transport = im.Store.Transport(sp.Transport)
	}
	im.batch.Add(&sp, peer, transport, start*1000, stop*1000)
	if im.spans++; im.batch.Len() >= 4096 {
		im.flush()
	}
	return true
}

// flush waits for the store, so that none is dropped.
func (im *Importer) flush() {
	im.batch = im.Store.Put(im.batch)
	_ = im.Store.Sync(context.Background())
}

// category returns the category with a name.
func (im *Importer) category(name string) uint8 {
	for c, fixed := range im.Store.Names()[:spans.FirstPrefix] {
		if c > 0 && name == fixed {
			return uint8(c)
		}
	}
	return uint8(im.Store.Prefix(name))
}

// Finish makes all spans visible.
func (im *Importer) Finish() *spans.Store {
	im.flush()
	return im.Store
}
