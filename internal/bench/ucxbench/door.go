package ucxbench

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/ucx"
)

// door is how the two sides find each other.
type door interface {
	// address is what the other side must know; "" when it need not.
	address(ctx context.Context) (string, error)
	// connect makes the endpoint to the side with that address.
	connect(ctx context.Context, address string) (*ucx.Endpoint, error)
	close() error
}

func newDoor(w *ucx.Worker, args OpenArgs) (door, error) {
	switch args.Endpoint {
	case EndpointLifeline:
		return &lifelineDoor{worker: w, server: args.Server}, nil
	case EndpointAddress:
		return addressDoor{w}, nil
	case EndpointSockaddr:
		return &sockaddrDoor{worker: w, server: args.Server}, nil
	default:
		return nil, unknown("endpoint", args.Endpoint, EndpointNames)
	}
}

// lifelineDoor meets over an abstract Unix socket, which stays open.
type lifelineDoor struct {
	worker   *ucx.Worker
	server   bool
	listener *ucx.Listener
}

func (d *lifelineDoor) address(ctx context.Context) (string, error) {
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

func (d *lifelineDoor) connect(ctx context.Context, address string) (*ucx.Endpoint, error) {
	if d.server {
		return d.listener.Accept(ctx)
	}
	return d.worker.Dial(ctx, address)
}

func (d *lifelineDoor) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}

// addressDoor connects by worker address in both directions, in error mode
// none.
type addressDoor struct{ worker *ucx.Worker }

func (d addressDoor) close() error { return nil }

func (d addressDoor) address(context.Context) (string, error) {
	a, err := d.worker.Address()
	if err != nil {
		return "", err
	}
	text, err := a.MarshalText()
	return string(text), err
}

func (d addressDoor) connect(_ context.Context, text string) (*ucx.Endpoint, error) {
	var a ucx.WorkerAddress
	if err := a.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("address of the other side: %w", err)
	}
	return d.worker.Connect(a, &ucx.EndpointConfig{Name: "bench peer", NoErrorHandling: true})
}

// sockaddrDoor uses UCX's connection manager on the loopback interface.
type sockaddrDoor struct {
	worker   *ucx.Worker
	server   bool
	listener *ucx.Listener
}

func (d *sockaddrDoor) address(ctx context.Context) (string, error) {
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

func (d *sockaddrDoor) connect(ctx context.Context, address string) (*ucx.Endpoint, error) {
	if d.server {
		return d.listener.Accept(ctx)
	}
	return d.worker.DialSocket(ctx, address, nil)
}

func (d *sockaddrDoor) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}
