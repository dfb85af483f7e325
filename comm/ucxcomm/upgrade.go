package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/ucx"
)

// laneFeature in a hello says that its sender can leave distributed-ucxx's format for a
// lane, as upgrade does it.
const laneFeature = "ucx-lane-1"

// handshake is Dask's, then the lane's between Millstream peers. admit may be nil.
func (c *conn) handshake(ctx context.Context, compression string, invitation []byte, admit func(string, []byte) bool,
	dialer bool) error {
	same := sameHost(c.local, c.peer)
	var features []string
	if !c.settings.PlainLanes {
		features = []string{laneFeature}
	}
	if c.canStage() {
		features = append(features, stagedFeature)
	}
	if c.takesDevice() {
		features = append(features, deviceFeature)
	}
	hello, err := handshake.New(compression, same, invitation, features...)
	if err != nil {
		return comm.Permanent(err)
	}
	info, remote, err := handshake.Do(ctx, c, hello)
	if err != nil {
		if errors.Is(err, errForm) {
			err = comm.Permanent(err)
		}
		return err
	}
	if admit != nil && !admit(c.peer, remote.Invitation) {
		return comm.Permanent(fmt.Errorf("ucxcomm: %s showed no valid invitation", c.peer))
	}
	info.SameHost = same
	info.CUDA = true
	c.info, c.handshaken = info, true
	if info.Millstream == nil || !slices.Contains(info.Millstream.Features, laneFeature) {
		return nil
	}
	if err := c.upgrade(ctx, dialer); err != nil {
		if c.Err() != nil {
			err = comm.Permanent(fmt.Errorf("ucxcomm: %s closed after the handshake; does it ask for an invitation "+
				"(DialConfig.Invitation)?: %w", c.peer, err))
		}
		return err
	}
	return nil
}

// upgrade makes a lane beside the connection, if both sides can, and moves the comm to
// it. Both sides call it. An error means that the comm cannot be used; one side that
// cannot have a lane is none: then everything stays as it is.
func (c *conn) upgrade(ctx context.Context, dialer bool) error {
	w, laneErr := c.engine.lane()
	l := &laneLink{host: c.settings.host(), device: c.device, grown: make(chan struct{}, 1)}
	l.t = newTether(c.meeting, l.credited)
	err := c.agree(ctx, l, w, laneErr, dialer)
	if err != nil || l.ep == nil {
		if l.ep != nil {
			abortEndpoint(l.ep)
		}
		l.t.close()
		return err
	}
	c.lane, c.link = l, l
	if slices.Contains(c.info.Millstream.Features, stagedFeature) {
		err = c.stage(ctx, dialer)
	}
	if c.takesDevice() && !slices.Contains(c.info.Millstream.Features, deviceFeature) {
		c.link = &hostLink{l}
	}
	go c.watchLane(l)
	return err
}

// agree leaves the lane's endpoint in l if there is to be one.
func (c *conn) agree(ctx context.Context, l *laneLink, w *ucx.Worker, laneErr error, dialer bool) error {
	if err := l.t.sendReady(ctx, readiness{ok: laneErr == nil, window: laneWindow}); err != nil {
		return err
	}
	theirs, err := await(ctx, c, l.t.ready)
	if err != nil || !theirs.ok || laneErr != nil {
		return err
	}
	l.window = uint64(max(theirs.window, minWindow))
	ep, err := w.Attach(ctx, l.t.line, c.peer)
	if err == nil && dialer {
		err = ep.Flush(ctx) // sets up the lanes
	}
	if serr := l.t.sendFinal(ctx, err == nil); serr != nil {
		l.ep = ep
		return serr
	}
	made, ferr := await(ctx, c, l.t.final)
	if ferr != nil || !made || err != nil {
		if ep != nil {
			abortEndpoint(ep)
		}
		return ferr
	}
	l.ep = ep
	return nil
}

// await waits for the peer's next word.
func await[T any](ctx context.Context, c *conn, ch <-chan T) (v T, err error) {
	select {
	case v = <-ch:
	case <-c.done:
		err = c.Err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return v, err
}

func sameHost(a, b string) bool {
	x, errX := comm.AddressHost(a)
	y, errY := comm.AddressHost(b)
	return errX == nil && errY == nil && x == y && x != ""
}
