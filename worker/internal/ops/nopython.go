package ops

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Clients send requests to all workers at once: Client.run, register_plugin and upload_file fail as a whole if one
// worker fails. A worker without Python therefore replies without an error to requests whose effect is not needed, and
// logs them.

// replyNotRun returns the result of a Python function on a worker without Python.
func (h *handlers) replyNotRun(op string) (any, error) {
	h.log.Info("Python function ignored: worker without Python", "op", op)
	return resultMessage(fmt.Sprintf("not run: %s is a Millstream worker without Python", h.w.Address()))
}

// pluginAdd ignores a plugin.
func (h *handlers) pluginAdd(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		name = ""
	}
	h.log.Info("plugin ignored: worker without Python", "plugin", name)
	return msgpack.MapOf("status", "OK"), nil
}

// pluginRemove does nothing: there are no plugins.
func pluginRemove(context.Context, *rpc.Request) (any, error) {
	return msgpack.MapOf("status", "OK"), nil
}

// uploadFile ignores a Python file.
func (h *handlers) uploadFile(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("filename", &name); err != nil {
		return nil, err
	}
	raw, _ := r.Field("data")
	h.log.Info("uploaded file ignored: worker without Python", "file", name)
	return msgpack.MapOf("status", "OK", "nbytes", len(raw)), nil
}

// rejectShuffle rejects requests of P2P shuffles.
func (h *handlers) rejectShuffle(_ context.Context, r *rpc.Request) (any, error) {
	const why = "P2P shuffles need Python; set dataframe.shuffle.method to tasks"
	return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError",
		Message: fmt.Sprintf("Go worker %s does not support %s: %s", h.w.Address(), r.Op, why)}, "error")
}
