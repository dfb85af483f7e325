package ops

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Clients ask all workers at once: Client.run, register_plugin and upload_file fail as a
// whole if one worker does. What a worker without Python cannot do is therefore answered in
// words where nothing depends on it, and said in its log.

// notRun returns the result of a Python function on a worker without Python.
func (h *handlers) notRun(op string) (any, error) {
	h.log.Info("a Python function was not run: this worker has no Python", "op", op)
	return resultMessage(fmt.Sprintf("not run: %s is a Millstream worker without Python", h.w.Address()))
}

// pluginAdd takes note of a plugin that cannot be set up.
func (h *handlers) pluginAdd(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		name = ""
	}
	h.log.Info("a plugin was not set up: this worker has no Python", "plugin", name)
	return msgpack.MapOf("status", "OK"), nil
}

// pluginRemove has nothing to remove.
func pluginRemove(context.Context, *rpc.Request) (any, error) {
	return msgpack.MapOf("status", "OK"), nil
}

// uploadFile takes Python code, which is not imported here.
func (h *handlers) uploadFile(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("filename", &name); err != nil {
		return nil, err
	}
	raw, _ := r.Field("data")
	h.log.Info("a Python file was not kept: this worker has no Python", "file", name)
	return msgpack.MapOf("status", "OK", "nbytes", len(raw)), nil
}

// noShuffle refuses what P2P shuffles ask for.
func (h *handlers) noShuffle(_ context.Context, r *rpc.Request) (any, error) {
	const why = "P2P shuffles are Python's (set dataframe.shuffle.method to tasks)"
	return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError",
		Message: fmt.Sprintf("%s is a Go worker and has no %s: %s", h.w.Address(), r.Op, why)}, "error")
}
