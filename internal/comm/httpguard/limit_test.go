package httpguard

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// Half requests push each other out, and whole ones are answered meanwhile.
func TestLimit(t *testing.T) {
	leak.Check(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 4
	l := Limit(ln, most).(*limited)
	s := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	half := make([]net.Conn, 3*most)
	for i := range half {
		if half[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer half[i].Close()
		if _, err := half[i].Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 * most {
		a, err := client.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != http.StatusNotFound {
			t.Errorf("status: got %d, want 404", a.StatusCode)
		}
	}
	for i := range len(half) - most { // the last ones may still be open
		_ = half[i].SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(half[i]); err != nil && err.(net.Error).Timeout() {
			t.Errorf("half request %d is open: %v", i, err)
		}
	}
	l.mu.Lock()
	n := l.open.Len()
	l.mu.Unlock()
	if n > most {
		t.Errorf("open connections: got %d, want at most %d", n, most)
	}
}
