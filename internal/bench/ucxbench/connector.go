package ucxbench

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/ucx"
)

// connector connects the two sides.
type connector interface {
	// address returns what the other side must know, "" if nothing.
	address(ctx context.Context) (string, error)
	// connect returns an endpoint to the side with that address.
	connect(ctx context.Context, address string) (*ucx.Endpoint, error)
	close() error
}

func newConnector(w *ucx.Worker, args OpenArgs) (connector, error) {
	switch args.Endpoint {
	case EndpointLifeline:
		return &lifelineConnector{worker: w, server: args.Server}, nil
	case EndpointAddress:
		return addressConnector{w}, nil
	case EndpointSockaddr:
		return &sockaddrConnector{worker: w, server: args.Server}, nil
	default:
		return nil, unknown("endpoint", args.Endpoint, EndpointNames)
	}
}

// lifelineConnector connects over an abstract Unix socket, which stays open.
type lifelineConnector struct {
	worker   *ucx.Worker
	server   bool
	listener *ucx.Listener
}

func (d *lifelineConnector) address(ctx context.Context) (string, error) {
	if !d.server {
		return "", nil
	}
	address := fmt.Sprintf("unix:@millstream-bench-%d", os.Getpid())
	l, err := d.worker.Listen(ctx, address)
	if err != nil {
		return "", err
	}
	d.listener = l
	return address, nil
}

func (d *lifelineConnector) connect(ctx context.Context, address string) (*ucx.Endpoint, error) {
	if d.server {
		return d.listener.Accept(ctx)
	}
	return d.worker.Dial(ctx, address)
}

func (d *lifelineConnector) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}

// addressConnector connects by worker address in both directions, in error mode none.
type addressConnector struct{ worker *ucx.Worker }

func (d addressConnector) close() error { return nil }

func (d addressConnector) address(context.Context) (string, error) {
	a, err := d.worker.Address()
	if err != nil {
		return "", err
	}
	text, err := a.MarshalText()
	return string(text), err
}

func (d addressConnector) connect(_ context.Context, text string) (*ucx.Endpoint, error) {
	var a ucx.WorkerAddress
	if err := a.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("invalid address of the other side: %w", err)
	}
	return d.worker.Connect(a, &ucx.EndpointConfig{Name: "bench peer", NoErrorHandling: true})
}

// sockaddrConnector uses the connection manager of UCX on the loopback interface.
type sockaddrConnector struct {
	worker   *ucx.Worker
	server   bool
	listener *ucx.Listener
}

func (d *sockaddrConnector) address(ctx context.Context) (string, error) {
	if !d.server {
		return "", nil
	}
	l, err := d.worker.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	d.listener = l
	return l.Addr().String(), nil
}

func (d *sockaddrConnector) connect(ctx context.Context, address string) (*ucx.Endpoint, error) {
	if d.server {
		return d.listener.Accept(ctx)
	}
	return d.worker.DialSocket(ctx, address, nil)
}

func (d *sockaddrConnector) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}
