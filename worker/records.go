package worker

import (
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/record"
)

// Transfer describes one transfer of data between this worker and a peer or a client.
type Transfer struct {
	// Peer is the address of the other side, if known.
	Peer string `json:"peer"`
	// Incoming indicates that this worker fetched the data; otherwise it served it.
	Incoming bool `json:"incoming"`
	// Scheme is the scheme of the connection: tcp, tls, inproc, ucxx, …
	Scheme string `json:"scheme"`
	// Keys is the number of results, Bytes their size, DeviceBytes the part of it in memory of this worker's GPU.
	Keys        int   `json:"keys"`
	Bytes       int64 `json:"bytes"`
	DeviceBytes int64 `json:"device_bytes,omitempty"`
	// Transports are the UCX transports between the two, such as cuda_ipc: for device memory, and for transfers of at
	// least 1 MiB. It is cma alone if most of the data was read from the memory of the sender, without UCX.
	Transports []string `json:"transports,omitempty"`
	// Start is the time of the start, Took the duration, Duration the same in seconds for JSON.
	Start    time.Time     `json:"start"`
	Took     time.Duration `json:"-"`
	Duration float64       `json:"duration"`
	// Error describes why the transfer failed; "" if it succeeded, "busy" if the peer rejected it for now.
	Error string `json:"error,omitempty"`
}

// Span is a part of the time of a task on the worker.
type Span struct {
	// Action is Dask's name: transfer, disk-read, disk-write, deserialize or compute.
	Action string `json:"action"`
	// Start and Stop are seconds since 1970.
	Start float64 `json:"start"`
	Stop  float64 `json:"stop"`
}

// Timeline describes one run of a task.
type Timeline struct {
	// Key is the key of the task, Name the name of its function.
	Key  string `json:"key"`
	Name string `json:"name"`
	// Thread is the number of the goroutine that ran the task, from 0.
	Thread int64 `json:"thread"`
	// Status is OK, error, cancelled or reschedule.
	Status string `json:"status"`
	// NBytes is the size of the result in bytes.
	NBytes int64 `json:"nbytes"`
	// Spans are the parts of the run, in order.
	Spans []Span `json:"spans"`
}

// DiskTransfer describes one result that was spilled to disk or read back.
type DiskTransfer struct {
	// Key is the key of the result.
	Key string `json:"key"`
	// Action is disk-write or disk-read.
	Action string `json:"action"`
	// NBytes is the size of the result in memory, Disk the size of the file, in bytes.
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

// DiskTransfers returns the last results that were spilled to disk or read back, oldest first (see Config.Records).
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
