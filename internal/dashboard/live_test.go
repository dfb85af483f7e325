package dashboard

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// pipes is a listener of connections in memory, whose deadlines are in the time of a synctest bubble.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.accept <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// serveLive serves a live stream, whose requests may take 50 ms each, and returns a client.
func serveLive(t *testing.T, tick func(context.Context) ([]byte, error)) *http.Client {
	t.Helper()
	l := &live{tick: tick}
	p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: l, ReadTimeout: 50 * time.Millisecond, WriteTimeout: 50 * time.Millisecond}
	served := make(chan error, 1)
	go func() { served <- s.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		l.close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("server: got %v, want %v", err, http.ErrServerClosed)
		}
		transport.CloseIdleConnections()
	})
	return &http.Client{Transport: transport}
}

// Events arrive after the time that the server allows for other requests.
func TestLive(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		client := serveLive(t, func(context.Context) ([]byte, error) {
			if n.Add(1) == 2 {
				return nil, errors.New("not now") // is skipped
			}
			return []byte("event: tick\ndata: {}\n\n"), nil
		})
		begin := time.Now()
		r, err := client.Get("http://live")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("type: got %q, want text/event-stream", got)
		}
		lines := bufio.NewScanner(r.Body)
		for events := 0; events < 2; {
			if !lines.Scan() {
				t.Fatalf("stream ended after %d events: %v", events, lines.Err())
			}
			if strings.HasPrefix(lines.Text(), "data: ") {
				events++
			}
		}
		if got := n.Load(); got != 3 {
			t.Errorf("ticks: got %d, want 3", got)
		}
		if got, want := time.Since(begin), 2*tickInterval; got != want {
			t.Errorf("time of the third tick: got %v, want %v", got, want)
		}
	})
}

// A viewer that does not read is dropped, others are not; the number of viewers is bounded; close ends all.
func TestLiveViewers(t *testing.T) {
	leak.Check(t)
	l := &live{tick: func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	slow, err := l.add()
	if err != nil {
		t.Fatal(err)
	}
	quick, err := l.add()
	if err != nil {
		t.Fatal(err)
	}
	for range maxBehind + 1 {
		l.send([]byte("x"))
		<-quick.events
	}
	got := 0
	for range slow.events {
		got++
	}
	if got != maxBehind {
		t.Errorf("events of a viewer that was dropped: got %d, want %d", got, maxBehind)
	}
	l.send([]byte("y"))
	if e := <-quick.events; string(e) != "y" {
		t.Errorf("event of a viewer that reads: got %q, want y", e)
	}
	for range maxViewers - 1 {
		if _, err := l.add(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.add(); !errors.Is(err, errViewers) {
		t.Errorf("one viewer too many: got %v, want %v", err, errViewers)
	}
	l.remove(quick)
	l.remove(quick) // twice
	l.close()
	if _, err := l.add(); !errors.Is(err, errClosed) {
		t.Errorf("viewer of a closed stream: got %v, want %v", err, errClosed)
	}
}

// Without viewers there are no ticks, and they start again with the next one.
func TestLiveIdle(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		var ticks atomic.Int64
		l := &live{tick: func(context.Context) ([]byte, error) {
			ticks.Add(1)
			return []byte("x"), nil
		}}
		for visit := range int64(2) {
			v, err := l.add()
			if err != nil {
				t.Fatal(err)
			}
			<-v.events
			l.remove(v)
			time.Sleep(10 * tickInterval)
			if got := ticks.Load(); got != visit+1 {
				t.Errorf("ticks after %d short visits: got %d, want one each", visit+1, got)
			}
		}
		l.close()
	})
}

func TestLiveRefused(t *testing.T) {
	l := &live{}
	l.close()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("closed stream: got %d, headers %v, want 503 with Retry-After", w.Code, w.Header())
	}
}
