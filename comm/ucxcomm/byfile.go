package ucxcomm

import (
	"context"
	"fmt"
	"net"
	"slices"

	"go.millstream.dev/comm/ucxcomm/internal/ucxmux"
	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/ucx"
)

// startByFile creates the only worker of an engine without sockets. Without streams UCX does not limit the number of
// endpoints between two workers.
func (e *engine) startByFile() {
	if _, set := e.options["TLS"]; !set && networked() {
		e.options["TLS"] = "^tcp" // which opens a port for each interface
	}
	e.ctx, e.meet, e.err = e.start(false, ucx.AllFeatures&^ucx.Stream)
	if e.err != nil {
		return
	}
	mux, err := ucxmux.Open(e.meet)
	if err != nil {
		closeTracked(e.meet)
		_ = e.ctx.Close()
		e.err = fmt.Errorf("ucxcomm: no UCX: %w", err)
		return
	}
	e.mux = mux
}

// networked reports whether there is an interface that UCX's tcp could use; without one UCX warns if tcp is requested.
func networked() bool {
	list, err := net.Interfaces()
	return err != nil || slices.ContainsFunc(list, func(i net.Interface) bool { return i.Flags&net.FlagUp != 0 })
}

// attachTagged makes the connection of two processes that have a control connection. Both call it. The control
// connection becomes the lifeline, through which the end of either process is detected.
func attachTagged(ctx context.Context, w *ucx.Worker, l *ucxmux.Conn, peer string) (*taggedEndpoint, error) {
	ep, err := w.Attach(ctx, l, peer)
	if err != nil {
		return nil, err
	}
	u, err := ucx.NewUCXXEndpoint(ep)
	if err != nil {
		abortEndpoint(ep)
		return nil, err
	}
	local, remote := l.Numbers()
	return newTaggedEndpoint(u, ucxxwire.UserTag(remote, sideHash+1), ucxxwire.UserTag(local, sideHash+1)), nil
}
