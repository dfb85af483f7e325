package guide

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/internal/proc/docfiles"
)

// firstLine passes on the first line that is written to it.
type firstLine struct {
	mu    sync.Mutex
	buf   bytes.Buffer // guarded by mu
	once  sync.Once
	lines chan string
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf.Write(b)
	if line, err := f.buf.ReadString('\n'); err == nil {
		f.once.Do(func() { f.lines <- line })
	}
	return len(b), nil
}

func TestCommand(t *testing.T) {
	cmd := Command("")
	out := &firstLine{lines: make(chan string, 1)}
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--port", "0"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	var line string
	select {
	case line = <-out.lines:
	case err := <-ended:
		t.Fatalf("the command ended: %v", err)
	}
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "guide at ")
	if !ok || !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Fatalf("output: got %q, want the address of the guide on the loopback interface", line)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(at + "docs/guide/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("<h1")) {
		t.Errorf("tutorial: got %d, %v, %.100s", resp.StatusCode, err, body)
	}
	// A page of another site whose name resolves to this machine.
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	req.Host = "evil.example"
	if resp, err = client.Do(req); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("host name of another site: got %v, %v, want 403", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end by the context: %v", err)
	}
}

func TestCommandErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	run := func(args ...string) string {
		cmd := Command("")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(io.Discard)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := run("--port", port); !strings.Contains(got, "address already in use") || !strings.Contains(got,
		"--port") {
		t.Errorf("port in use: got %q, want the cause and the flag", got)
	}
	defer func(files fs.FS) { docfiles.Files = files }(docfiles.Files)
	docfiles.Files = nil
	if got := run(); !strings.Contains(got, "contains no documents") {
		t.Errorf("binary without documents: got %q", got)
	}
}
