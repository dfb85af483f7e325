package helpers

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Upload is a file that a client has uploaded. Client.upload_file sends it to the scheduler too, because graphs import
// it.
type Upload struct {
	Filename string
	Data     []byte
	Load     bool // import the file immediately
}

// maxUploads and maxUploadBytes bound the files that clients can upload.
const (
	maxUploads     = 1000
	maxUploadBytes = 1 << 30
)

// Upload keeps a file for future helpers and sends it to the running ones and to others. It returns its size.
func (h *Helpers) Upload(ctx context.Context, u Upload, others []*pyproc.Process) (int, error) {
	h.mu.Lock()
	h.uploads = append(slices.DeleteFunc(h.uploads, func(o Upload) bool { return o.Filename == u.Filename }), u)
	total := 0
	for _, o := range h.uploads {
		total += len(o.Data)
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
		return 0, &rpc.Exception{Type: "MemoryError", Message: "limit of uploaded files on the scheduler exceeded"}
	}
	children = append(children, others...)
	errs := make([]error, len(children))
	var wg sync.WaitGroup
	for i, p := range children {
		wg.Go(func() { errs[i] = u.send(ctx, p) })
	}
	wg.Wait()
	return len(u.Data), errors.Join(errs...)
}

// send sends the file to a helper. One that has ended meanwhile receives it at its restart.
func (u *Upload) send(ctx context.Context, p *pyproc.Process) error {
	_, err := p.Call(ctx, "upload-file", msgpack.MapOf("filename", u.Filename, "load", u.Load), [][]byte{u.Data})
	if errors.Is(err, pyproc.ErrExited) {
		return nil
	}
	return err
}

// setupChild sends the files that were uploaded earlier to a new helper. A file that cannot be imported does not
// prevent its start.
func (h *Helpers) setupChild(ctx context.Context, p *pyproc.Process) error {
	h.mu.Lock()
	list := slices.Clone(h.uploads)
	h.mu.Unlock()
	for _, u := range list {
		if err := u.send(ctx, p); err != nil {
			h.cfg.Log.Warn("uploaded file not imported in Python helper", "file", u.Filename, "error", err)
		}
	}
	return ctx.Err()
}
