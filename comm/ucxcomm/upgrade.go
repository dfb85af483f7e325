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

// dataFeature in a hello announces that its sender supports data connections instead of distributed-ucxx's format.
const dataFeature = "ucx-data-1"

// handshake performs Dask's handshake, then that of the data connection between Millstream peers. cookies may be nil.
func (c *conn) handshake(ctx context.Context, compression string, invitation []byte, admit func(string, []byte) bool,
	dialer bool) error {
	same := sameHost(c.local, c.peer)
	var features []string
	if !c.settings.PlainTransports {
		features = []string{dataFeature}
	}
	if c.canStage() {
		features = append(features, stagedFeature)
	}
	if c.canStripe() {
		features = append(features, stripesFeature)
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
		return comm.Permanent(fmt.Errorf("ucxcomm: no valid invitation from %s", c.peer))
	}
	info.SameHost = same
	info.CUDA = true
	c.info, c.handshaken = info, true
	if info.Millstream == nil || !slices.Contains(info.Millstream.Features, dataFeature) {
		return nil
	}
	if err := c.upgrade(ctx, dialer); err != nil {
		if c.Err() != nil {
			err = comm.Permanent(fmt.Errorf("ucxcomm: %s closed after the handshake; does it require an invitation "+
				"(DialConfig.Invitation)?: %w", c.peer, err))
		}
		return err
	}
	return nil
}

// upgrade makes a data connection, if both sides can, and moves the comm to it. Both sides call it. An error means that
// the comm cannot be used; if one side cannot have a data connection the comm stays as it is.
func (c *conn) upgrade(ctx context.Context, dialer bool) error {
	w, dataErr := c.engine.dataUCX()
	l := &dataLink{host: c.settings.host(), device: c.device, grown: make(chan struct{}, 1)}
	if host, err := comm.AddressHost(c.peer); err == nil && c.canStripe() &&
		slices.Contains(c.info.Millstream.Features, stripesFeature) {
		l.large = newHostStripes(hostStripeCount(c.staged), host, c.door)
	}
	l.t = newControlChannel(c.tagged, l.addCredit, l.large)
	err := c.agree(ctx, l, w, dataErr, dialer)
	if err != nil || l.ep == nil {
		if l.ep != nil {
			abortEndpoint(l.ep)
		}
		l.large.wait()
		l.t.close()
		return err
	}
	c.data, c.link = l, l
	l.large.start(l.ep)
	if slices.Contains(c.info.Millstream.Features, stagedFeature) {
		err = c.stage(ctx, dialer)
	}
	if c.takesDevice() && !slices.Contains(c.info.Millstream.Features, deviceFeature) {
		c.link = &hostLink{l}
	}
	go c.watchData(l)
	return err
}

// agree stores the endpoint of the data connection in l if there is one.
func (c *conn) agree(ctx context.Context, l *dataLink, w *ucx.Worker, dataErr error, dialer bool) error {
	if err := l.t.sendReady(ctx, readiness{ok: dataErr == nil, window: dataWindow}); err != nil {
		return err
	}
	theirs, err := await(ctx, c, l.t.ready)
	if err != nil || !theirs.ok || dataErr != nil {
		return err
	}
	l.window = uint64(max(theirs.window, minWindow))
	ep, err := w.Attach(ctx, l.t.line, c.peer)
	if err == nil && dialer {
		err = ep.Flush(ctx) // sets up the transports
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

// await waits for the peer's next message.
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
