package browser

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/spans/spanstest"
)

// filled returns a store with the history of some workers, which is the same in every run.
func filled(t *testing.T, workers, tasks int) *spans.Store {
	t.Helper()
	o := spanstest.Realistic(workers, 2, tasks)
	o.Start = time.Unix(1_700_000_000, 0)
	s, err := spans.Open(spans.Config{Origin: o.Start.Add(-time.Hour), Now: o.Stop().Add(time.Hour).Local})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	spanstest.Fill(s, o)
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// reportFile writes a report and returns its name.
func reportFile(t *testing.T, s *spans.Store) string {
	t.Helper()
	d := dashboard.New(s, nil)
	defer d.Close()
	var b bytes.Buffer
	if err := d.WriteReport(context.Background(), &b, dashboard.ReportOptions{}); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReport opens a report file without a network: every page, no request to a server.
func TestReport(t *testing.T) {
	s := filled(t, 8, 4000)
	name := reportFile(t, s)
	for look, how := range looks {
		t.Run(look, func(t *testing.T) {
			how.Offline = true
			tab := open(t, how)
			for page := range pages {
				visit(t, tab, "file://"+name+"#/"+page, `document.querySelector("h1") !== null`)
				wait(t, tab, `document.querySelector(".state").dataset.state === "report"`)
				if page == "stream" {
					wait(t, tab, ready)
					shoot(t, tab, "report-stream-"+look)
				}
			}
			for _, r := range tab.Requests() {
				if !strings.HasPrefix(r, "file://"+name) && !strings.HasPrefix(r, "data:") {
					t.Errorf("got a request for %s, want none", r)
				}
			}
		})
	}
}
