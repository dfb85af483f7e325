package worker

import (
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/record"
)

// Transfer is one transfer of data between this worker and a peer or a client.
type Transfer struct {
	// Peer is the other side's address, as far as it told one.
	Peer string `json:"peer"`
	// Incoming tells that this worker fetched; otherwise it served.
	Incoming bool `json:"incoming"`
	// Scheme is the scheme of the connection: tcp, tls, inproc, ucxx, …
	Scheme string `json:"lane"`
	// Keys is how many keys were moved, Bytes their size, DeviceBytes what of it is in memory of
	// this worker's GPU.
	Keys        int   `json:"keys"`
	Bytes       int64 `json:"bytes"`
	DeviceBytes int64 `json:"device_bytes,omitempty"`
	// Transports are those of UCX between the two, such as cuda_ipc: of device memory, and of
	// transfers from 1 MiB on.
	Transports []string `json:"transports,omitempty"`
	// Start is when it began, Took how long it lasted, in seconds in JSON.
	Start    time.Time     `json:"start"`
	Took     time.Duration `json:"-"`
	Duration float64       `json:"duration"`
	// Error says why it failed, "" if it did not; "busy" if the peer had no room.
	Error string `json:"error,omitempty"`
}

// Span is a part of a task's time on the worker.
type Span struct {
	// Action is Dask's: transfer, disk-read, disk-write, deserialize or compute.
	Action string `json:"action"`
	// Start and Stop are seconds since 1970.
	Start float64 `json:"start"`
	Stop  float64 `json:"stop"`
}

// Timeline is one run of a task.
type Timeline struct {
	// Key names the task, Name the function.
	Key  string `json:"key"`
	Name string `json:"name"`
	// Thread numbers the goroutine that ran it, from 0.
	Thread int64 `json:"thread"`
	// Status is OK, error, cancelled or reschedule.
	Status string `json:"status"`
	// NBytes is the size of the result.
	NBytes int64 `json:"nbytes"`
	// Spans are in order.
	Spans []Span `json:"spans"`
}

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

// Transfers returns the last transfers, oldest first (see Config.Records).
func (w *Worker) Transfers() []Transfer {
	list := w.transfers.Records()
	out := make([]Transfer, len(list))
	for i := range list {
		out[i] = Transfer(list[i])
	}
	return out
}

// Timelines returns the last runs of tasks, oldest first (see Config.Records).
func (w *Worker) Timelines() []Timeline {
	runs := w.exec.Timelines()
	out := make([]Timeline, len(runs))
	for i := range runs {
		out[i] = timeline(&runs[i])
	}
	return out
}

func timeline(r *record.Run) Timeline {
	t := Timeline{Key: task.Key(r.Key).String(), Name: r.Name, Thread: r.Thread, Status: r.Status, NBytes: r.NBytes}
	r.Each(func(action string, start, stop int64) {
		t.Spans = append(t.Spans, Span{action, record.Seconds(start), record.Seconds(stop)})
	})
	return t
}

// DiskTransfers returns the last results that went to disk or came back, oldest first (see
// Config.Records).
func (w *Worker) DiskTransfers() []DiskTransfer {
	list := w.memory.DiskRecords()
	out := make([]DiskTransfer, len(list))
	for i, t := range list {
		out[i] = DiskTransfer{Key: t.Key.String(), Action: "disk-read", NBytes: t.NBytes, Disk: t.Disk,
			Start: record.Unix(t.Start), Stop: record.Unix(t.Stop)}
		if t.Write {
			out[i].Action = "disk-write"
		}
	}
	return out
}
