package ucxcomm

import (
	"context"
	"fmt"
	"net"
	"slices"

	"go.millstream.dev/comm/ucxcomm/internal/ucxdoor"
	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/ucx"
)

// porch is where an engine without sockets meets others: by worker address.
type porch struct {
	door *ucxdoor.Door
}

// startByFile makes the one worker of an engine without sockets. Without streams UCX does not bound how many endpoints
// two workers may make.
func (e *engine) startByFile() {
	if _, set := e.options["TLS"]; !set && networked() {
		e.options["TLS"] = "^tcp" // which opens a port for each interface
	}
	e.ctx, e.meet, e.err = e.start(false, ucx.AllFeatures&^ucx.Stream)
	if e.err != nil {
		return
	}
	door, err := ucxdoor.Open(e.meet)
	if err != nil {
		_ = e.meet.Close()
		_ = e.ctx.Close()
		e.err = fmt.Errorf("ucxcomm: no UCX: %w", err)
		return
	}
	e.porch = &porch{door: door}
}

// networked tells whether there is an interface that UCX's tcp could use; where there is none UCX warns of who names
// it.
func networked() bool {
	list, err := net.Interfaces()
	return err != nil || slices.ContainsFunc(list, func(i net.Interface) bool { return i.Flags&net.FlagUp != 0 })
}

// meetOver makes the connection of two processes that have a line. Both call it. The line becomes the lifeline: who
// dies, closes or gives up is noticed through it.
func meetOver(ctx context.Context, w *ucx.Worker, l *ucxdoor.Line, peer string) (*meeting, error) {
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
	return newMeeting(u, ucxxwire.UserTag(remote, sideHash+1), ucxxwire.UserTag(local, sideHash+1)), nil
}
