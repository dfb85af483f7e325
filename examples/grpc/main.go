// Command grpc runs a gRPC service over UCX.
//
//	grpc serve 127.0.0.1:9000
//	grpc call 127.0.0.1:9000 TEXT
//
// Only the listener of the server and the dialer of the client differ from gRPC over TCP.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"go.millstream.dev/ucx"
)

// calls is the number of calls that call measures.
const calls = 100

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	serving := len(args) == 2 && args[0] == "serve"
	if !serving && (len(args) != 3 || args[0] != "call") {
		return errors.New("usage: grpc serve ADDRESS | grpc call ADDRESS TEXT")
	}
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		return err
	}
	defer w.Close()
	if !serving {
		return call(ctx, out, w, args[1], args[2])
	}
	l, err := w.ListenConn(ctx, args[1], nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "serving at", l.Addr())
	return serve(ctx, l)
}

// serve serves the service until the context is done.
func serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer()
	server.RegisterService(&service, upper{})
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(l)
}

// call calls the service and prints the reply and the mean time of a call. UCX does not encrypt: between hosts, pass
// credentials.NewTLS to the client and the server, as over TCP.
func call(ctx context.Context, out io.Writer, w *ucx.Worker, address, text string) error {
	dial := func(ctx context.Context, address string) (net.Conn, error) { return w.DialContext(ctx, "ucx", address) }
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	reply := &wrapperspb.StringValue{}
	if err := conn.Invoke(ctx, method, wrapperspb.String(text), reply); err != nil { // connects
		return err
	}
	begin := time.Now()
	for range calls {
		if err := conn.Invoke(ctx, method, wrapperspb.String(text), reply); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n%v per call\n", reply.GetValue(), time.Since(begin)/calls)
	return err
}
