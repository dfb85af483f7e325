package worker

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Clients ask all workers at once: Client.run, register_plugin and upload_file fail as a
// whole if one worker does. What a worker without Python cannot do is therefore answered in
// words where nothing depends on it, and said in its log.

// notRun is the result of a function of Python's on a worker without Python.
func (w *Worker) notRun(op string) (any, error) {
	w.log.Info("a function of Python's was not run: this worker has no Python", "op", op)
	return resultMessage(fmt.Sprintf("not run: %s is a Millstream worker without Python", w.address))
}

// pluginAdd takes note of a plugin that cannot be set up.
func (w *Worker) pluginAdd(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		name = ""
	}
	w.log.Info("a plugin was not set up: this worker has no Python", "plugin", name)
	return msgpack.MapOf("status", "OK"), nil
}

// pluginRemove has nothing to remove.
func (w *Worker) pluginRemove(context.Context, *rpc.Request) (any, error) {
	return msgpack.MapOf("status", "OK"), nil
}

// uploadFile takes code of Python's that nobody here will import.
func (w *Worker) uploadFile(_ context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("filename", &name); err != nil {
		return nil, err
	}
	raw, _ := r.Field("data")
	w.log.Info("a file of Python's was not kept: this worker has no Python", "file", name)
	return msgpack.MapOf("status", "OK", "nbytes", len(raw)), nil
}
