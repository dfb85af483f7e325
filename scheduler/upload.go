package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/wire"
)

// upload is a file that a client has uploaded: Client.upload_file gives it to the
// scheduler too, because graphs import what they name.
type upload struct {
	filename string
	data     []byte
	load     bool
}

// maxUploads and maxUploadBytes bound what clients can leave here.
const (
	maxUploads     = 1000
	maxUploadBytes = 1 << 30
)

// registerSchedulerPlugin is register_scheduler_plugin. The helper looks at the plugin: some
// of Dask's own only bring files or packages, all others are refused.
func (s *Scheduler) registerSchedulerPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Plugin     []byte `rpc:"plugin"`
	Name       string `rpc:"name"`
	Idempotent any    `rpc:"idempotent,optional"`
}) (any, error) {
	_, err := s.callHelper(ctx, moduleService, "register-plugin", msgpack.MapOf("name", in.Name), [][]byte{slices.Clone(in.Plugin)})
	return nil, err
}

// upload keeps a file for the Python children to come and gives it to those that are there.
// It returns its size.
func (s *Scheduler) upload(ctx context.Context, u upload) (int, error) {
	h := &s.helpers
	h.mu.Lock()
	h.uploads = append(slices.DeleteFunc(h.uploads, func(o upload) bool { return o.filename == u.filename }), u)
	total := 0
	for _, o := range h.uploads {
		total += len(o.data)
	}
	full := len(h.uploads) > maxUploads || total > maxUploadBytes
	if full {
		h.uploads = h.uploads[:len(h.uploads)-1]
	}
	var children []*pyproc.Process
	for _, v := range h.byName {
		if p := v.Current(); p != nil {
			children = append(children, p)
		}
	}
	h.mu.Unlock()
	if full {
		return 0, &rpc.Exception{Type: "MemoryError", Message: "the scheduler keeps no more uploaded files"}
	}
	children = append(children, s.graphChildren()...)
	errs := make([]error, len(children))
	var wg sync.WaitGroup
	for i, p := range children {
		wg.Go(func() { errs[i] = u.give(ctx, p) })
	}
	wg.Wait()
	return len(u.data), errors.Join(errs...)
}

// give hands the file to a child. One that has ended meanwhile gets it when it is started
// again.
func (u *upload) give(ctx context.Context, p *pyproc.Process) error {
	_, err := p.Call(ctx, "upload-file", msgpack.MapOf("filename", u.filename, "load", u.load), [][]byte{u.data})
	if errors.Is(err, pyproc.ErrExited) {
		return nil
	}
	return err
}

// setupChild hands a new Python child the files that were uploaded before it came. A file
// that cannot be imported is no reason to have no child.
func (s *Scheduler) setupChild(ctx context.Context, p *pyproc.Process) error {
	s.helpers.mu.Lock()
	list := slices.Clone(s.helpers.uploads)
	s.helpers.mu.Unlock()
	for _, u := range list {
		if err := u.give(ctx, p); err != nil {
			s.log.Warn("an uploaded file cannot be used in a Python helper", "file", u.filename, "error", err)
		}
	}
	return ctx.Err()
}

// facadePlugin registers a worker or nanny plugin for a scheduler plugin of Dask's. The
// answers of the workers go back as a message of Dask's protocol.
func (s *Scheduler) facadePlugin(ctx context.Context, m *pyproc.Message, nanny bool) (any, [][]byte, error) {
	args, err := bodyMap(m)
	if err != nil || len(m.Frames) != 1 {
		return nil, nil, errors.Join(err, errNoBody)
	}
	v, _ := args.Get("idempotent")
	idempotent, _ := v.(bool)
	out, err := s.plugins.Add(ctx, plugins.Args{Plugin: m.Frames[0], Name: args.GetString("name"), Idempotent: idempotent}, nanny)
	if err != nil {
		return nil, nil, err
	}
	msg, err := wire.Encode(out, wire.EncodeOptions{})
	if err != nil {
		return nil, nil, err
	}
	frames := make([][]byte, len(msg.Frames))
	for i, f := range msg.Frames {
		frames[i] = slices.Clone(f.Bytes())
	}
	msg.Release()
	return nil, frames, nil
}
