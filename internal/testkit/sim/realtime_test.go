package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestRealTime shows that a bubble is a choice: the same network runs on the clock of the
// machine, and leaves no goroutine behind.
func TestRealTime(t *testing.T) {
	leak.Check(t)
	for _, deterministic := range []bool{false, true} {
		n := New(Config{Link: Link{Latency: time.Microsecond, Jitter: 50 * time.Microsecond},
			Deterministic: deterministic})
		a, b := pair(t, n)
		done := make(chan error, 1)
		go func() {
			for i := range 200 {
				if err := a.Write(t.Context(), text(fmt.Sprint(i))); err != nil {
					done <- err
					return
				}
			}
			done <- a.Close()
		}()
		for i := range 200 {
			mustRead(t, b, fmt.Sprint(i))
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantClosed(t, b)
	}
}

// TestTraceIsBounded also checks that the writer gets every line.
func TestTraceIsBounded(t *testing.T) {
	var all strings.Builder
	n := New(Config{Trace: &all})
	for i := range traceLines + 10 {
		n.Refuse(fmt.Sprint("host", i), true)
	}
	if got := strings.Count(n.Trace(), "\n"); got != traceLines {
		t.Errorf("%d lines kept, want %d", got, traceLines)
	}
	if got := strings.Count(all.String(), "\n"); got != traceLines+10 {
		t.Errorf("%d lines written, want %d", got, traceLines+10)
	}
	if !strings.Contains(strings.SplitN(n.Trace(), "\n", 2)[0], "host10 ") {
		t.Errorf("the oldest lines were kept: %s", strings.SplitN(n.Trace(), "\n", 2)[0])
	}
	if s := n.String(); !strings.Contains(s, "hosts") {
		t.Error(s)
	}
}

func TestListenErrors(t *testing.T) {
	n := New(Config{})
	for _, c := range []struct{ address, says string }{
		{"sim://other:1", "another host"},
		{"tcp://here:1", "sim://"},
		{"sim://here:port", "port"},
	} {
		if _, err := n.Host("here").Listen(t.Context(), c.address, comm.ListenConfig{}); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("listen on %s: %v, want %q in it", c.address, err, c.says)
		}
	}
	if _, err := n.Host("here").Listen(t.Context(), "sim://here:5",
		comm.ListenConfig{Compression: "rot13"}); err == nil {
		t.Error("an unknown compression was taken")
	}
	l, err := n.Host("here").Listen(t.Context(), "sim://here:5", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Host("here").Listen(t.Context(), "sim://here:5", comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("second listener: %v", err)
	}
	if l.ListenAddr() != "sim://here:5" || l.ContactAddr() != "sim://here:5" {
		t.Errorf("addresses %s, %s", l.ListenAddr(), l.ContactAddr())
	}
	_, _ = l.Close(), l.Close()
	if _, err := n.Host("here").Listen(t.Context(), "sim://here:5", comm.ListenConfig{}); err != nil {
		t.Errorf("listen after close: %v", err)
	}
}
