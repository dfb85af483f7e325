package ops

import (
	"context"
	"os"

	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/ucx"
)

// DiagnosisOp is the op of worker.Diagnosis.
const DiagnosisOp = "millstream-diagnosis"

// maxNotes is the maximum number of transfers in a reply.
const maxNotes = 64

func (h *handlers) diagnosis(context.Context, *rpc.Request) (any, error) {
	reason := ""
	if err := ucx.Available(); err != nil {
		reason = err.Error()
	}
	namespace := func(name string) string {
		target, _ := os.Readlink("/proc/self/ns/" + name)
		return target
	}
	all := h.cfg.Transfers.Records()
	notes := []any{}
	for _, t := range all[max(0, len(all)-maxNotes):] {
		notes = append(notes, msgpack.MapOf("peer", t.Peer, "incoming", t.Incoming, "scheme", t.Scheme,
			"bytes", t.Bytes, "device", t.DeviceBytes, "seconds", t.Duration, "transports", anyList(t.Transports),
			"error", t.Error))
	}
	addresses := []any{}
	if address := h.cfg.Transfers.Address(); address != "" {
		addresses = append(addresses, address)
	}
	return msgpack.MapOf("boot", hostid.Boot(), "ipc", namespace("ipc"), "pid", namespace("pid"),
		"data_addresses", addresses, "trusted", h.cfg.Trusted, "ucx", reason, "gpu", h.cfg.GPU, "registry", task.Hash(),
		"transfers", notes), nil
}

// anyList converts strings to a list for a message.
func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
