package worker

import "go.millstream.dev/worker/internal/ops"

// DiagnosisOp requests the location of a worker and its last transfers. It has no arguments; the reply is a Diagnosis.
const DiagnosisOp = ops.DiagnosisOp

// Diagnosis is the reply to DiagnosisOp, with which doctor reports which data connections are possible between two
// workers, and which were used.
type Diagnosis struct {
	// Boot identifies the machine since its start, IPC and PID the namespaces of the process.
	Boot string `rpc:"boot"`
	IPC  string `rpc:"ipc"`
	PID  string `rpc:"pid"`
	// DataAddresses are the addresses on which the worker accepts data connections; Trusted allows them to other
	// machines.
	DataAddresses []string `rpc:"data_addresses"`
	Trusted       bool     `rpc:"trusted"`
	// UCX describes why libucp cannot be used; "" if it can.
	UCX string `rpc:"ucx"`
	// GPU is the UUID of the worker's GPU; "" without one.
	GPU string `rpc:"gpu"`
	// Registry is the task.Hash of the worker, which identifies its functions.
	Registry string `rpc:"registry"`
	// Transfers are the last transfers, oldest first.
	Transfers []TransferNote `rpc:"transfers"`
}

// TransferNote summarizes a Transfer. Seconds is its duration.
type TransferNote struct {
	Peer     string `rpc:"peer"`
	Incoming bool   `rpc:"incoming"`
	Scheme   string `rpc:"scheme"`
	Bytes    int64  `rpc:"bytes"`
	// Device is the number of bytes that arrived in the memory of a GPU.
	Device  int64   `rpc:"device"`
	Seconds float64 `rpc:"seconds"`
	// Transports are the UCX transports that were used, for large transfers and for device memory.
	Transports []string `rpc:"transports"`
	Error      string   `rpc:"error"`
}
