package worker

import (
	"context"
	"os"

	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/ucx"
)

// DiagnosisOp asks a worker where it is and how its last transfers went. It has no arguments;
// the answer is a Diagnosis.
const DiagnosisOp = "millstream-diagnosis"

// Diagnosis is what doctor asks a worker: which lanes there can be to another, and which was
// used.
type Diagnosis struct {
	// Boot identifies the machine since its start, IPC and PID the namespaces of the process.
	Boot string `rpc:"boot"`
	IPC  string `rpc:"ipc"`
	PID  string `rpc:"pid"`
	// Lanes are the addresses of its data lanes; Trusted allows them to other machines.
	Lanes   []string `rpc:"lanes"`
	Trusted bool     `rpc:"trusted"`
	// UCX says why libucp cannot be used, "" if it can.
	UCX string `rpc:"ucx"`
	// GPU is the UUID of the worker's GPU, "" if it has none.
	GPU string `rpc:"gpu"`
	// Registry is task.Hash there: which functions it runs.
	Registry string `rpc:"registry"`
	// Transfers are the last ones, oldest first.
	Transfers []TransferNote `rpc:"transfers"`
}

// TransferNote is a Transfer in short: where from or to, how, how much, how long in seconds.
type TransferNote struct {
	Peer     string `rpc:"peer"`
	Incoming bool   `rpc:"incoming"`
	Lane     string `rpc:"lane"`
	Bytes    int64  `rpc:"bytes"`
	// Device is what of Bytes arrived in memory of a GPU.
	Device  int64   `rpc:"device"`
	Seconds float64 `rpc:"seconds"`
	// Transports are those that UCX moved it with, of large transfers and of device memory.
	Transports []string `rpc:"transports"`
	Error      string   `rpc:"error"`
}

// told is how many transfers an answer has.
const told = 64

func (w *Worker) diagnosis(context.Context, *rpc.Request) (any, error) {
	reason := ""
	if err := ucx.Available(); err != nil {
		reason = err.Error()
	}
	namespace := func(name string) string {
		target, _ := os.Readlink("/proc/self/ns/" + name)
		return target
	}
	all := w.Transfers()
	notes := []any{}
	for _, t := range all[max(0, len(all)-told):] {
		notes = append(notes, msgpack.MapOf("peer", t.Peer, "incoming", t.Incoming, "lane", t.Lane, "bytes", t.Bytes, "device", t.DeviceBytes,
			"seconds", t.Duration, "transports", texts(t.Transports), "error", t.Error))
	}
	gpu := ""
	if w.cfg.GPU != nil {
		gpu = w.cfg.GPU.UUID
	}
	return msgpack.MapOf("boot", hostid.Boot(), "ipc", namespace("ipc"), "pid", namespace("pid"), "lanes", texts(w.Lanes()),
		"trusted", w.cfg.Lanes.Trusted, "ucx", reason, "gpu", gpu, "registry", task.Hash(), "transfers", notes), nil
}

// texts are strings as a message carries them.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
