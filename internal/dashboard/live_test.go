package dashboard

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// serveLive returns a live stream and the address of its server, whose requests may take 50 ms each.
func serveLive(t *testing.T, tick func(context.Context) ([]byte, error)) (*live, string) {
	t.Helper()
	l := &live{tick: tick}
	s := httptest.NewUnstartedServer(l)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	s.Start()
	t.Cleanup(func() {
		l.close()
		s.Close()
	})
	return l, s.URL
}

// Events arrive after the time that the server allows for other requests.
func TestLive(t *testing.T) {
	leak.Check(t)
	var n atomic.Int64
	_, url := serveLive(t, func(context.Context) ([]byte, error) {
		if n.Add(1) == 2 {
			return nil, errors.New("not now") // is skipped
		}
		return []byte("event: tick\ndata: {}\n\n"), nil
	})
	r, err := http.Get(url)
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
	if got := n.Load(); got < 3 {
		t.Errorf("ticks: got %d, want at least 3", got)
	}
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
	ticks := make(chan struct{}, 100)
	l := &live{tick: func(context.Context) ([]byte, error) {
		ticks <- struct{}{}
		return []byte("x"), nil
	}}
	for range 2 {
		v, err := l.add()
		if err != nil {
			t.Fatal(err)
		}
		<-v.events
		l.remove(v)
	}
	l.close()
	if n := len(ticks); n < 2 || n > 4 {
		t.Errorf("ticks for two short visits: got %d, want 2 to 4", n)
	}
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
