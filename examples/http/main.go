// Command http serves and fetches files by net/http over UCX.
//
//	http serve 127.0.0.1:9000 FOLDER
//	http get 127.0.0.1:9000 /NAME
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"go.millstream.dev/ucx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 3 || args[0] != "serve" && args[0] != "get" {
		return errors.New("usage: http serve ADDRESS FOLDER | http get ADDRESS /NAME")
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
	if args[0] == "get" {
		return get(ctx, out, w, args[1], args[2])
	}
	l, err := w.ListenConn(ctx, args[1], nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "serving at", l.Addr())
	return serve(ctx, l, args[2])
}

// serve serves the files of a folder until the context is done.
func serve(ctx context.Context, l net.Listener, folder string) error {
	server := &http.Server{Handler: http.FileServer(http.Dir(folder)), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// get copies a file of a server. The connection of the client is the only difference from HTTP over TCP.
func get(ctx context.Context, out io.Writer, w *ucx.Worker, address, name string) error {
	transport := &http.Transport{DialContext: w.DialContext}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+name, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", name, response.Status)
	}
	_, err = io.Copy(out, response.Body)
	return err
}
