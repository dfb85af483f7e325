package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// withCommand runs a command, calls f with what follows each prefix in its output, and ends it. The log of the command
// contains no token.
func withCommand(t *testing.T, args []string, prefixes []string, f func(found []string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan struct{})
	var log strings.Builder // read after the end
	go func() {
		defer close(ended)
		Run(ctx, args, nil, out, &log)
		_ = out.Close()
	}()
	found := make([]string, len(prefixes))
	lines := bufio.NewScanner(in)
	for slices.Contains(found, "") && lines.Scan() {
		for i, p := range prefixes {
			if rest, ok := strings.CutPrefix(lines.Text(), p); ok && found[i] == "" {
				found[i] = rest
			}
		}
	}
	go func() { _, _ = io.Copy(io.Discard, in) }()
	whole := !slices.Contains(found, "")
	if whole {
		f(found)
	}
	cancel()
	<-ended
	if !whole {
		t.Fatalf("%v: got %q after %q; log:\n%s", args, found, prefixes, log.String())
	}
	for _, line := range found {
		if u, err := url.Parse(line); err == nil && u.Query().Get("token") != "" &&
			strings.Contains(log.String(), u.Query().Get("token")) {
			t.Errorf("%v: the log contains the token:\n%s", args, log.String())
		}
	}
}

// statusOf returns the status of a page.
func statusOf(t *testing.T, link string) int {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // certificates of clusters have no host names
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := c.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}

// The printed links open the pages of a scheduler and its workers, which are closed without them. A token file keeps
// its token.
func TestDashboardLinks(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	inFile := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	closed := func(name, link, scheme string) (token string) {
		t.Helper()
		u, err := url.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		token = u.Query().Get("token")
		if len(token) < 26 || u.Scheme != scheme {
			t.Errorf("%s: got link %s, want %s and a token", name, link, scheme)
		}
		if got := statusOf(t, link); got != http.StatusSeeOther {
			t.Errorf("%s: got status %d, want 303", name, got)
		}
		u.RawQuery = ""
		if got := statusOf(t, u.String()); got != http.StatusUnauthorized {
			t.Errorf("%s without the token: got status %d, want 401", name, got)
		}
		if got := statusOf(t, u.String()+"health"); got != http.StatusOK {
			t.Errorf("%s, /health: got status %d, want 200", name, got)
		}
		return token
	}
	scheduler := func(args ...string) []string {
		return append([]string{"scheduler", "--port", "0", "--no-python", "--host", "127.0.0.1"}, args...)
	}
	at := []string{"dashboard at "}
	everywhere := []string{"--dashboard-address", "0.0.0.0:0"}
	// Flags change the configuration of the process, so that commands with flags for the token run one at a time.
	for range 2 {
		withCommand(t, scheduler(append(everywhere, "--dashboard-token-file", file)...), at, func(found []string) {
			if got := closed("token file", found[0], "http"); got != inFile() {
				t.Errorf("token file: got another token than in the file")
			}
		})
	}
	certificates := filepath.Join(dir, "tls")
	withCommand(t, scheduler(append(everywhere, "--dashboard-token-file", file, "--tls-dir", certificates)...), at,
		func(found []string) { closed("TLS", found[0], "https") })
	for name, args := range map[string][]string{"none": append(everywhere, "--dashboard-token", "none"),
		"loopback": {"--dashboard-address", ":0"}} {
		withCommand(t, scheduler(args...), at, func(found []string) {
			if got := statusOf(t, found[0]); got != http.StatusOK || strings.Contains(found[0], "token") {
				t.Errorf("%s: got status %d of %s, want 200 without a token", name, got, found[0])
			}
		})
	}
	withCommand(t, scheduler(everywhere...), []string{"scheduler at ", "dashboard at "}, func(found []string) {
		random := closed("scheduler", found[1], "http")
		worker := append([]string{"worker", found[0], "--nthreads", "1", "--no-python", "--data-connections", "none",
			"--retire-timeout", "1s", "--local-directory", dir, "--host", "127.0.0.1"}, everywhere...)
		at := []string{"worker dashboard at "}
		withCommand(t, worker, at, func(found []string) {
			if got := closed("worker", found[0], "http"); got == random {
				t.Error("worker: got the token of the scheduler, want another one")
			}
		})
		withCommand(t, append(worker, "--no-nanny", "--dashboard-token-file", file), at, func(found []string) {
			if got := closed("worker without a nanny", found[0], "http"); got != inFile() {
				t.Error("worker without a nanny: got another token than in the file")
			}
		})
	})
}
