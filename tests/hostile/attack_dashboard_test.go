package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

func init() {
	register(attack{name: "dashboard without its token", targets: onTCP | onTLS | plain,
		run: by((*Rig).attackDashboard)})
}

// attackDashboard requests pages of a scheduler that listens on all interfaces with wrong tokens of every kind and as
// other web pages, many at a time. Then the link that the scheduler has printed still opens the page, and no
// answer to an op contains the token.
func (r *Rig) attackDashboard(ctx context.Context) error {
	p, err := r.StartScheduler("exposed", "--port", "0", "--dashboard-address", "0.0.0.0:0")
	if err != nil {
		return err
	}
	link, err := url.Parse(p.HTTP)
	if err != nil {
		return err
	}
	token, base := link.Query().Get("token"), link.Scheme+"://"+link.Host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // certificates of clusters have no host names
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, at string, header ...string) (int, string, error) {
		q, err := http.NewRequestWithContext(ctx, method, at, nil)
		if err != nil {
			return 0, "", err
		}
		for i := 0; i < len(header); i += 2 {
			q.Header.Set(header[i], header[i+1])
		}
		a, err := client.Do(q)
		if err != nil {
			return 0, "", err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
		return a.StatusCode, string(b), err
	}
	port := link.Port()
	attempts := [][]string{{}, {"Authorization", "Bearer "}, {"Authorization", "Bearer " + token[1:]},
		{"Authorization", "Bearer " + strings.ToLower(token)}, {"Authorization", "Basic " + token},
		{"Cookie", "millstream-" + port + "=" + token}, {"Cookie", strings.Repeat("millstream-"+port+"=x; ", 500)},
		{"X-Forwarded-For", "127.0.0.1"}, {"Authorization", "Bearer " + token, "Origin", "http://evil.example"},
		{"Authorization", "Bearer " + token, "Sec-Fetch-Site", "cross-site"},
		{"Authorization", "Bearer " + strings.Repeat("a", 60_000)}}
	queries := []string{"", "?token=", "?token=" + token[1:], "?token=" + token + "%00", "?Token=" + token}
	var failed error
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, path := range []string{"/", "/metrics", "/json/identity.json", "/millstream/events", "//health",
		"/health/../"} {
		for _, method := range []string{"GET", "POST", "PUT", "OPTIONS"} {
			all.Go(func() {
				for _, h := range attempts {
					for _, query := range queries {
						code, body, err := ask(method, base+path+query, h...)
						if err == nil && (code < 400 || strings.Contains(body, "Scheduler-") ||
							strings.Contains(body, token)) {
							mu.Lock()
							failed = fmt.Errorf("%s %s%s with %.80q: status %d, %.200s", method, path, query, h, code,
								body)
							mu.Unlock()
						}
					}
				}
			})
		}
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	if code, _, err := ask("GET", p.HTTP); err != nil || code != http.StatusSeeOther {
		return fmt.Errorf("link of the scheduler: status %d, %v, want 303", code, err)
	}
	if code, body, err := ask("GET", base+"/health"); err != nil || code != http.StatusOK || body != "ok" {
		return fmt.Errorf("/health: status %d, %q, %v, want 200", code, body, err)
	}
	for _, op := range []string{"get_logs", "identity", "events"} {
		var answer any
		if err := r.Call(ctx, p.Address, op, nil, &answer); err != nil || strings.Contains(fmt.Sprint(answer), token) {
			return fmt.Errorf("%s: %v, or the token is in the answer", op, err)
		}
	}
	return nil
}
