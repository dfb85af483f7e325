package ucx_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"go.millstream.dev/ucx"
)

func worker() (*ucx.Worker, func()) {
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	return w, func() {
		_ = w.Close()
		_ = c.Close()
	}
}

// An unmodified HTTP server and client, with UCX underneath.
func ExampleWorker_ListenConn() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	here, close1 := worker()
	defer close1()
	there, close2 := worker()
	defer close2()

	l, err := here.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello,", r.URL.Path[1:])
	})}
	go srv.Serve(l)

	transport := &http.Transport{DialContext: there.DialContext}
	client := &http.Client{Transport: transport}
	resp, err := client.Get("http://" + l.Addr().String() + "/gopher")
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Print(string(body))

	transport.CloseIdleConnections()
	_ = srv.Shutdown(ctx)
	// Output: hello, gopher
}

// A byte stream by hand: the end of writing is seen as io.EOF, the answer still comes.
func ExampleWorker_DialConn() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	here, close1 := worker()
	defer close1()
	there, close2 := worker()
	defer close2()

	l, err := here.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		fmt.Fprintf(c, "%d bytes arrived\n", n)
	}()

	c, err := there.DialConn(ctx, l.Addr().String(), &ucx.ConnConfig{Window: 256 << 10})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 1_000_000)); err != nil {
		log.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(answer)
	// Output: 1000000 bytes arrived
}

// Any net.Conn or net.Listener will do as the place to meet. Both sides attach to it
// and make a byte stream of the endpoint.
func ExampleNewConn() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	here, close1 := worker()
	defer close1()
	there, close2 := worker()
	defer close2()

	l, err := here.Listen(ctx, "unix:@millstream-example")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		ep, err := l.Accept(ctx)
		if err != nil {
			return
		}
		c, err := ucx.NewConn(ctx, ep, nil)
		if err != nil {
			return
		}
		fmt.Fprint(c, "over UCX")
		_ = c.Close()
	}()

	ep, err := there.Dial(ctx, "unix:@millstream-example")
	if err != nil {
		log.Fatal(err)
	}
	c, err := ucx.NewConn(ctx, ep, nil)
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	_ = c.Close()
	fmt.Println(string(text))
	// Output: over UCX
}
