package worker

import "go.millstream.dev/worker/internal/ops"

// DiagnosisOp asks a worker where it is and how its last transfers went. It has no arguments;
// the answer is a Diagnosis.
const DiagnosisOp = ops.DiagnosisOp

// Diagnosis is what doctor asks a worker: which lanes there can be to another, and which was
// used.
type Diagnosis struct {
	// Boot identifies the machine since its start, IPC and PID the namespaces of the process.
	Boot string `rpc:"boot"`
	IPC  string `rpc:"ipc"`
	PID  string `rpc:"pid"`
	// DataAddresses are those on which the worker accepts data connections; Trusted allows them to other machines.
	DataAddresses []string `rpc:"lanes"`
	Trusted       bool     `rpc:"trusted"`
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
	Scheme   string `rpc:"lane"`
	Bytes    int64  `rpc:"bytes"`
	// Device is what of Bytes arrived in memory of a GPU.
	Device  int64   `rpc:"device"`
	Seconds float64 `rpc:"seconds"`
	// Transports are those that UCX moved it with, of large transfers and of device memory.
	Transports []string `rpc:"transports"`
	Error      string   `rpc:"error"`
}
