package spans

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
)

// The state has what changes in place: spans that are not in blocks yet, series and events. It is replaced as a whole.
const (
	stateMagic = 0x31545453 // "STT1"
	maxState   = 256 << 20
	// Bounds of what a state has, before it is compressed.
	maxStatePart = maxPlain
)

// encodeState returns the state.
func (s *Store) encodeState() []byte {
	var e blockEncoder
	var sorted columns
	var blocks [][]byte
	s.mu.RLock()
	s.index.eachOpen(0, maxTime, func(c *columns) {
		id, class := c.id, c.class
		c = c.sorted(c.byRow(), &sorted)
		_, p := e.encode(id, class, c, c.sortedOutline())
		blocks = append(blocks, append([]byte(nil), p...))
	})
	series := s.series.encode()
	events := s.events.encode()
	s.mu.RUnlock()
	e.out = binary.LittleEndian.AppendUint32(e.out[:0], stateMagic)
	e.out = binary.LittleEndian.AppendUint32(e.out, 0)
	e.uvarint(uint64(len(blocks)))
	for _, p := range blocks {
		e.uvarint(uint64(len(p)))
		e.out = append(e.out, p...)
	}
	for _, p := range [][]byte{series, events} {
		e.uvarint(uint64(len(p)))
		e.text(p)
	}
	binary.LittleEndian.PutUint32(e.out[4:], crc32.Checksum(e.out[8:], castagnoli))
	return e.out
}

// loadState reads the state, if there is one that is whole.
func (s *Store) loadState(sealed map[uint64]bool) error {
	p, err := os.ReadFile(s.disk.path(stateFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.disk.stateSize = int64(len(p))
	if len(p) < 8 || len(p) > maxState || binary.LittleEndian.Uint32(p) != stateMagic ||
		crc32.Checksum(p[8:], castagnoli) != binary.LittleEndian.Uint32(p[4:]) {
		return nil
	}
	d := &decoder{in: p[8:]}
	for range d.uvarint(2 * classes) {
		b := d.take(int(d.uvarint(maxSections)))
		c, err := decodeBlock(b)
		if d.err != nil || err != nil {
			return nil
		}
		if !sealed[c.id] && c.maxRow() < len(s.names.rows) && s.index.open[c.class] == nil {
			s.index.open[c.class] = c
			s.index.extend(c.minStart, c.maxStop, int64(c.len()))
			s.index.nextID = max(s.index.nextID, c.id+1)
		}
	}
	series := d.byteString(int(d.uvarint(maxStatePart)))
	events := d.byteString(int(d.uvarint(maxStatePart)))
	if d.err == nil {
		s.series.decode(series)
		s.events.decode(events)
	}
	return nil
}

// decodeBlock reads a whole block.
func decodeBlock(p []byte) (*columns, error) {
	h, ok := parseHeader(p)
	if !ok || int64(len(p)) != h.size() {
		return nil, errCorrupt
	}
	b := &block{header: h, data: p}
	o, err := b.outline()
	if err != nil {
		return nil, err
	}
	c, err := b.columns(o)
	if err != nil {
		return nil, err
	}
	c.id, c.class = h.id, h.class
	return c, nil
}

func (c *columns) maxRow() int {
	m := uint32(0)
	for _, row := range c.row {
		m = max(m, row)
	}
	return int(m)
}

// encode returns the series: for each its name, and for each step the cells.
func (s *seriesSet) encode() []byte {
	var e encoder
	e.uvarint(uint64(len(s.byName)))
	for name, one := range s.byName {
		e.uvarint(uint64(len(name)))
		e.out = append(e.out, name...)
		for _, cells := range one.steps {
			e.uvarint(uint64(len(cells)))
			before := int64(0)
			for _, c := range cells {
				e.uvarint(uint64(c.T - before))
				before = c.T
				e.uvarint(uint64(c.Count))
				e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(c.Sum))
			}
		}
	}
	return e.out
}

func (s *seriesSet) decode(p []byte) {
	d := &decoder{in: p}
	for range d.uvarint(maxSeries) {
		name := d.string(3 * maxText)
		one := new(series)
		for i := range one.steps {
			var t int64
			for range d.uvarint(2 * seriesLength) {
				t += int64(d.uvarint(maxTime))
				c := cell{T: t, Count: int64(d.uvarint(1 << 50))}
				if b := d.take(8); b != nil {
					c.Sum = math.Float64frombits(binary.LittleEndian.Uint64(b))
				}
				if d.err != nil || c.Count == 0 || t > maxTime {
					return
				}
				one.steps[i] = append(one.steps[i], c)
			}
		}
		if d.err != nil {
			return
		}
		s.byName[name] = one
	}
}

// encode returns the events.
func (l *eventLog) encode() []byte {
	var e encoder
	e.uvarint(uint64(len(l.list)))
	for _, ev := range l.list {
		e.uvarint(uint64(ev.T))
		e.uvarint(uint64(len(ev.Kind)))
		e.out = append(e.out, ev.Kind...)
		e.uvarint(uint64(len(ev.JSON)))
		e.out = append(e.out, ev.JSON...)
	}
	return e.out
}

func (l *eventLog) decode(p []byte) {
	d := &decoder{in: p}
	for range d.uvarint(maxEvents) {
		ev := Event{T: int64(d.uvarint(maxTime)), Kind: d.string(3 * maxText)}
		ev.JSON = d.take(int(d.uvarint(maxEvent)))
		if d.err != nil {
			return
		}
		l.add(ev)
	}
}
