package ucx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// serveHTTP runs an unmodified server on one worker and returns its URL and a
// client whose connections start at another.
func serveHTTP(t *testing.T, cfg Config, wcfg WorkerConfig, h http.Handler) (string, *http.Client, *http.Server) {
	t.Helper()
	ws, wc := newWorker(t, cfg, wcfg), newWorker(t, cfg, wcfg)
	l, err := ws.ListenConn(testContext(t), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	tr := &http.Transport{DialContext: wc.DialContext, MaxIdleConnsPerHost: 8, DisableCompression: true}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + l.Addr().String(), &http.Client{Transport: tr, Timeout: 60 * time.Second}, srv
}

// repeated yields n bytes of a pattern without holding them.
type repeated struct{ at, n int }

func (r *repeated) Read(p []byte) (int, error) {
	if r.at == r.n {
		return 0, io.EOF
	}
	k := min(len(p), r.n-r.at)
	for i := range p[:k] {
		p[i] = byte((r.at + i) * 31 >> 3)
	}
	r.at += k
	return k, nil
}

func digest(t *testing.T, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		t.Errorf("after %d bytes: %v", n, err)
	}
	return fmt.Sprintf("%d %x", n, h.Sum(nil))
}

func TestConnHTTPLargeBody(t *testing.T) {
	size := 100 << 20
	if testing.Short() {
		size = 10 << 20
	}
	for _, set := range connSettings[:2] {
		t.Run(set.name, func(t *testing.T) {
			leak.Check(t)
			want := digest(t, &repeated{n: size})
			url, client, _ := serveHTTP(t, set.cfg, set.wcfg, http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				if got := digest(t, r.Body); got != want {
					t.Errorf("server got %s, want %s", got, want)
				}
				w.Header().Set("Content-Length", fmt.Sprint(size))
				if _, err := io.Copy(w, &repeated{n: size}); err != nil {
					t.Error(err)
				}
			}))
			resp, err := client.Post(url, "application/octet-stream", &repeated{n: size})
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := digest(t, resp.Body); got != want {
				t.Errorf("client got %s, want %s", got, want)
			}
		})
	}
}

// Many requests at once over few kept connections; the server counts connections.
func TestConnHTTPParallel(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		leak.Check(t)
		var mu sync.Mutex
		remotes := map[string]int{}
		url, client, _ := serveHTTP(t, cfg, wcfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			remotes[r.RemoteAddr]++
			mu.Unlock()
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "%s:", r.URL.Path)
			_, _ = w.Write(body)
		}))
		const clients, rounds = 8, 25
		var wg sync.WaitGroup
		for id := range clients {
			wg.Go(func() {
				for i := range rounds {
					body := testBytes(uint64(id*rounds+i), i*411)
					path := fmt.Sprintf("/%d/%d", id, i)
					resp, err := client.Post(url+path, "text/plain", bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || !bytes.Equal(got, append([]byte(path+":"), body...)) {
						t.Errorf("%s: %d bytes, %v", path, len(got), err)
						return
					}
				}
			})
		}
		wg.Wait()
		total := 0
		for _, n := range remotes {
			total += n
		}
		if total != clients*rounds || len(remotes) > 4*clients {
			t.Errorf("%d requests over %d connections: kept connections are not reused", total, len(remotes))
		}
	})
}

// Shutdown waits for a request under way; its answer arrives whole.
func TestConnHTTPShutdown(t *testing.T) {
	leak.Check(t)
	started := make(chan struct{})
	var srv *http.Server
	url, client, srv := serveHTTP(t, Config{}, WorkerConfig{}, http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		close(started)
		time.Sleep(50 * time.Millisecond)
		_, _ = io.Copy(w, &repeated{n: 3 << 20})
	}))
	down := make(chan error, 1)
	go func() {
		<-started
		down <- srv.Shutdown(context.Background())
	}()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := digest(t, resp.Body), digest(t, &repeated{n: 3 << 20}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if _, err := client.Get(url); err == nil {
		t.Error("a server that was shut down answered")
	}
}

// TLS and HTTP/2 on top: the connection is an ordinary one to them.
func TestConnHTTP2OverTLS(t *testing.T) {
	leak.Check(t)
	ws, wc := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := ws.ListenConn(testContext(t), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ")
		_, _ = io.Copy(w, r.Body)
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the client drops connections it does not need after all
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	client.Transport.(*http.Transport).DialContext = wc.DialContext
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for id := range 16 {
		wg.Go(func() {
			body := strings.Repeat(fmt.Sprint(id), 50_000)
			resp, err := client.Post(srv.URL, "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != "HTTP/2.0 "+body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

// Arith is a net/rpc service.
type Arith struct{}

// Pair is its argument.
type Pair struct{ A, B int }

// Multiply is its method.
func (Arith) Multiply(p Pair, out *int) error {
	*out = p.A * p.B
	return nil
}

func TestConnRPC(t *testing.T) {
	leak.Check(t)
	a, b := newConnPair(t, Config{}, WorkerConfig{}, nil)
	srv := rpc.NewServer()
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		srv.ServeConn(b)
		close(served)
	}()
	client := rpc.NewClient(a)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				var got int
				if err := client.Call("Arith.Multiply", Pair{i, j}, &got); err != nil || got != i*j {
					t.Errorf("%d × %d = %d, %v", i, j, got, err)
				}
			}
		})
	}
	wg.Wait()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

func TestConnGob(t *testing.T) {
	a, b := newConnPair(t, Config{}, WorkerConfig{}, nil)
	type row struct {
		Name  string
		Cells []float64
	}
	errs := make(chan error, 1)
	go func() {
		enc := gob.NewEncoder(a)
		for i := range 200 {
			if err := enc.Encode(row{fmt.Sprint(i), make([]float64, i*10)}); err != nil {
				errs <- err
				return
			}
		}
		errs <- a.Close()
	}()
	dec := gob.NewDecoder(b)
	n := 0
	for ; ; n++ {
		var r row
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Name != fmt.Sprint(n) || len(r.Cells) != n*10 {
			t.Fatalf("row %d: %q, %d cells", n, r.Name, len(r.Cells))
		}
	}
	if err := <-errs; err != nil || n != 200 {
		t.Errorf("%d rows, %v", n, err)
	}
}
