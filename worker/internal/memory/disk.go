package memory

import (
	"sync/atomic"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/worker/internal/record"
)

// Moved counts moves of results in one direction.
type Moved struct {
	// Count and Bytes are those of the results, Time is the duration of all moves in ns.
	Count, Bytes, Time int64
}

// counter counts moves. Any goroutine may use it.
type counter struct{ count, bytes, time atomic.Int64 }

func (c *counter) add(bytes, ns int64) {
	c.count.Add(1)
	c.bytes.Add(bytes)
	c.time.Add(ns)
}

func (c *counter) load() Moved {
	return Moved{Count: c.count.Load(), Bytes: c.bytes.Load(), Time: c.time.Load()}
}

// diskCounts counts reads and writes of the store.
type diskCounts struct {
	records     *record.Ring[store.Transfer]
	read, wrote counter
}

func (d *diskCounts) init(records int) { d.records = record.NewRing[store.Transfer](records) }

// record records a read or write of the store.
func (d *diskCounts) record(t store.Transfer) {
	c := &d.read
	if t.Write {
		c = &d.wrote
	}
	c.add(t.Disk, int64(t.Stop.Sub(t.Start)))
	d.records.Add(t)
}

// moveCounts counts moves to a device and from it.
type moveCounts struct{ up, down counter }

// device returns the configuration of the store's device with counting of moves; nil without a device.
func (m *Manager) device() *store.DeviceConfig {
	if m.cfg.Device == nil {
		return nil
	}
	d := *m.cfg.Device
	next := d.OnMove
	d.OnMove = func(move store.Move) {
		c := &m.moves.up
		if move.Down {
			c = &m.moves.down
		}
		c.add(move.NBytes, int64(move.Stop.Sub(move.Start)))
		if next != nil {
			next(move)
		}
	}
	return &d
}

// DiskRecords returns the last results that were spilled to disk or read back, oldest first.
func (m *Manager) DiskRecords() []store.Transfer { return m.disk.records.All() }

// DiskCounts returns the counts of reads from disk and writes to it.
func (m *Manager) DiskCounts() (read, wrote Moved) { return m.disk.read.load(), m.disk.wrote.load() }

// DeviceCounts returns the counts of moves to the device and from it.
func (m *Manager) DeviceCounts() (up, down Moved) { return m.moves.up.load(), m.moves.down.load() }
