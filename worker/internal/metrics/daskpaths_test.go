package metrics

import (
	"net/http"
	"strings"
	"testing"
)

// The pages of Dask's worker lead to a page with the state of the worker, in which names are escaped.
func TestDaskPaths(t *testing.T) {
	const hostile = `"><script>alert(1)</script>`
	summary := func() Summary {
		s := full()
		return s.Summarize(Summary{Address: "tcp://a:1", Name: hostile, Status: "running", Limit: 2 << 20,
			DataAddresses: []string{"ucxx://a:2"}, Scheduler: "tcp://s:1"})
	}
	s := listen(t, Config{Name: hostile, Pages: []Page{{"/status", "state of the worker", Status(summary)}}})
	for _, path := range []string{"/status", "/system", "/profile", "/profile-server", "/info"} {
		code, body := get(t, s, path)
		if code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", path, code)
		}
		for _, want := range []string{"tcp://a:1", "running", "1 / 18", "ucxx://a:2", "0.0 MiB / 2.0 MiB",
			"&lt;script&gt;", "Tasks memory", "Tasks executed"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: got %s, want %s in it", path, body, want)
			}
		}
		if strings.Contains(body, "<script") {
			t.Errorf("%s: got %s, want the name escaped", path, body)
		}
	}
	if code, body := get(t, s, "/counters"); code != http.StatusOK || !strings.Contains(body, "go_gc") {
		t.Errorf("/counters: got %d, %.200s, want the metrics", code, body)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range daskPages {
		r, err := client.Get("http://" + s.Address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if got := r.Header.Get("Location"); r.StatusCode != http.StatusFound || got != want {
			t.Errorf("%s: got status %d to %q, want 302 to %s", path, r.StatusCode, got, want)
		}
	}
	if code, _ := get(t, s, "/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing: got status %d, want 404", code)
	}
}
