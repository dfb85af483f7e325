package worker

import (
	"sync/atomic"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/worker/internal/record"
)

// DiskTransfer is one result that went to disk or came back.
type DiskTransfer struct {
	// Key names the result.
	Key string `json:"key"`
	// Action is disk-write or disk-read.
	Action string `json:"action"`
	// NBytes is the result's size in memory, Disk the file's.
	NBytes int64 `json:"nbytes"`
	Disk   int64 `json:"disk"`
	// Start and Stop are seconds since 1970.
	Start float64 `json:"start"`
	Stop  float64 `json:"stop"`
}

// diskActivities are Dask's names for what diskCounts counts.
var diskActivities = [...]string{"disk_read", "disk_write"}

// diskCounts counts what the store has read and written.
type diskCounts struct {
	records            *record.Ring[store.Transfer]
	bytes, count, time [len(diskActivities)]atomic.Int64
}

// onDisk notes what the store did.
func (w *Worker) onDisk(t store.Transfer) {
	i := 0
	if t.Write {
		i = 1
	}
	w.disk.bytes[i].Add(t.Disk)
	w.disk.count[i].Add(1)
	w.disk.time[i].Add(int64(t.Stop.Sub(t.Start)))
	w.disk.records.Add(t)
}

// moveCounts counts what the store has moved to a device [0] and from it [1].
type moveCounts struct{ count, bytes, time [2]atomic.Int64 }

// device is the configuration of the store's device, which also counts.
func (w *Worker) device() *store.DeviceConfig {
	if w.cfg.Device == nil {
		return nil
	}
	d := *w.cfg.Device
	d.OnMove = func(m store.Move) {
		i := 0
		if m.Down {
			i = 1
		}
		w.moves.count[i].Add(1)
		w.moves.bytes[i].Add(m.NBytes)
		w.moves.time[i].Add(int64(m.Stop.Sub(m.Start)))
		if told := w.cfg.Device.OnMove; told != nil {
			told(m)
		}
	}
	return &d
}

// DiskTransfers returns the last results that went to disk or came back, oldest first (see
// Config.Records).
func (w *Worker) DiskTransfers() []DiskTransfer {
	list := w.disk.records.All()
	out := make([]DiskTransfer, len(list))
	for i, t := range list {
		out[i] = DiskTransfer{Key: t.Key.String(), Action: "disk-read", NBytes: t.NBytes, Disk: t.Disk, Start: record.Unix(t.Start), Stop: record.Unix(t.Stop)}
		if t.Write {
			out[i].Action = "disk-write"
		}
	}
	return out
}
