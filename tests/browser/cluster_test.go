package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/scheduler"
)

var (
	square = client.Func("browser.square", func(_ context.Context, x int) (int, error) { return x * x, nil })
	total  = client.Func2("browser.total", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
	broken = client.Func("browser.broken", func(_ context.Context, x int) (int, error) {
		return 0, errors.New("broken on purpose")
	})
)

// start starts a cluster whose dashboard listens on a port; 0 for a free one.
func start(t *testing.T, port int, token string) (c *cluster.Cluster, url string) {
	t.Helper()
	// Another process may have a port that was free a moment ago.
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		at := port
		if at == 0 {
			at = freePort(t)
		}
		c, err := cluster.Local(t.Context(), cluster.Config{Mode: cluster.Goroutines, Workers: 3, Threads: 2,
			Dashboard: fmt.Sprintf("127.0.0.1:%d", at),
			Scheduler: func(cfg *scheduler.Config) { cfg.DashboardToken = token }})
		if errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, fmt.Sprintf("http://127.0.0.1:%d", at)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// compute runs n squares and their sums, and one task that fails. The results stay in memory until the test ends.
func compute(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	cl, err := c.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	inputs := make([]int, n)
	for i := range inputs {
		inputs[i] = i
	}
	squares := square.Map(t.Context(), cl, inputs)
	var sums []*client.Future[int]
	for i := 1; i < n; i++ {
		sums = append(sums, total.Submit(t.Context(), cl, squares[i-1], squares[i]))
	}
	if _, err := client.Gather(t.Context(), sums); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Submit(t.Context(), cl, client.Val(n)).Result(t.Context()); err == nil {
		t.Fatal("got no error of a task that fails")
	}
	t.Cleanup(func() {
		runtime.KeepAlive(squares)
		runtime.KeepAlive(sums)
	})
}

// get returns the JSON of a path.
func get(t *testing.T, url string, into any) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(r.Body)
		t.Fatalf("%s: got status %s: %s", url, r.Status, b)
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// same requires that the page and the JSON of the scheduler, which change while workers report, agree at some time.
// compare returns the differences.
func same(t *testing.T, compare func() []string) {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		differ := compare()
		if len(differ) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("page and JSON differ: %s", strings.Join(differ, "; "))
		}
	}
}

// table returns the texts of the cells of the first table.
const table = `[...document.querySelectorAll("tbody tr")].map((tr) => [...tr.children].map((td) => td.innerText.trim()))`

// TestCluster opens every page of a scheduler that has run tasks, and compares numbers with its JSON.
func TestCluster(t *testing.T) {
	c, url := start(t, 0, "")
	compute(t, c, 40)
	tab := open(t, Look{})
	shown := map[string]string{
		"stream":    `document.querySelector(".streamlegend").innerText.includes("browser.square")`,
		"workers":   `document.querySelectorAll("tbody tr").length === 3`,
		"progress":  `document.querySelectorAll("tbody tr").length === 3`,
		"bandwidth": `document.querySelector("h1").textContent === "Bandwidth"`,
		"graph":     `document.querySelectorAll("svg g").length > 2`,
		"cliques":   `document.body.innerText.includes("No cliques")`,
		"memory":    `document.querySelectorAll(".chart").length > 1`,
		"failures":  `document.querySelector("tbody").innerText.includes("broken on purpose")`,
		"why":       `document.querySelectorAll(".card h2").length > 1`,
		"profile":   `document.querySelector("select").length === 6 && document.querySelector("p.muted").innerText !== ""`,
	}
	for name, ready := range shown {
		visit(t, tab, url+"/#/"+name, ready)
		wait(t, tab, `document.querySelector(".state").dataset.state === "live"`)
		if name == "stream" {
			wait(t, tab, `document.querySelector(".plot canvas").dataset.tiles === "ready"`)
		}
		shoot(t, tab, "cluster-"+name)
	}
	t.Run("progress", func(t *testing.T) {
		same(t, func() []string { return compareProgress(t, tab, url) })
	})
	t.Run("workers", func(t *testing.T) {
		same(t, func() []string { return compareWorkers(t, tab, url) })
	})
	t.Run("detail", func(t *testing.T) { checkDetail(t, tab, url) })
	t.Run("story", func(t *testing.T) { checkStory(t, tab, url) })
}

func compareProgress(t *testing.T, tab *Tab, url string) (differ []string) {
	t.Helper()
	var want struct {
		Prefixes []struct {
			Name                                       string
			Memory, Released, Forgotten, Erred, Queued int
		}
	}
	get(t, url+"/millstream/progress.json", &want)
	visit(t, tab, url+"/#/progress", `document.querySelectorAll("tbody tr").length === 3`)
	var got [][]string
	if err := tab.Eval(table, &got); err != nil {
		t.Fatal(err)
	}
	cells := map[string][]string{}
	for _, row := range got {
		cells[row[0]] = row
	}
	for _, p := range want.Prefixes {
		row := cells[p.Name]
		if row == nil {
			differ = append(differ, fmt.Sprintf("got no row of prefix %s in %v", p.Name, got))
			continue
		}
		if done := fmt.Sprint(p.Memory + p.Released + p.Forgotten); row[2] != done {
			differ = append(differ, fmt.Sprintf("%s: got %s tasks done, want %s", p.Name, row[2], done))
		}
		if erred := fmt.Sprint(p.Erred); row[5] != erred {
			differ = append(differ, fmt.Sprintf("%s: got %s erred tasks, want %s", p.Name, row[5], erred))
		}
	}
	return differ
}

func compareWorkers(t *testing.T, tab *Tab, url string) (differ []string) {
	t.Helper()
	var want struct {
		Workers []struct {
			Name, Address, Status string
			Threads, Held         int
		}
	}
	get(t, url+"/millstream/workers.json", &want)
	visit(t, tab, url+"/#/workers", `document.querySelectorAll("tbody tr").length === 3`)
	var got [][]string
	if err := tab.Eval(table, &got); err != nil {
		t.Fatal(err)
	}
	cells := map[string][]string{}
	for _, row := range got {
		cells[row[1]] = row
	}
	for _, w := range want.Workers {
		_, address, _ := strings.Cut(w.Address, "://")
		row := cells[address]
		if row == nil {
			differ = append(differ, fmt.Sprintf("got no row of worker %s in %v", w.Address, got))
			continue
		}
		if row[2] != w.Status || row[3] != fmt.Sprint(w.Threads) || row[11] != fmt.Sprint(w.Held) {
			differ = append(differ, fmt.Sprintf("%s: got state %q, threads %q, held %q, want %q, %d, %d", w.Address,
				row[2], row[3], row[11], w.Status, w.Threads, w.Held))
		}
	}
	return differ
}

// checkDetail opens the panel of a worker: its log and its call stacks.
func checkDetail(t *testing.T, tab *Tab, url string) {
	visit(t, tab, url+"/#/workers", `document.querySelectorAll("tbody tr").length === 3`)
	if err := tab.Eval(`document.querySelector("tbody button").click()`, nil); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector(".detail .lines").innerText !== "Loading"`)
	wait(t, tab, `document.querySelector(".detail .facts").innerText.includes("unmanaged")`)
	wait(t, tab, `[...document.querySelectorAll("th")].find((th) => th.innerText === "GPU").hidden`) // none has one
	if err := tab.Eval(`[...document.querySelectorAll(".detail button")][1].click()`, nil); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector(".detail .lines").innerText === "No task is running."`)
	shoot(t, tab, "cluster-worker")
}

func checkStory(t *testing.T, tab *Tab, url string) {
	visit(t, tab, url+"/#/failures", `document.querySelector("tbody a") !== null`)
	if err := tab.Eval(`document.querySelector("tbody a").click()`, nil); err != nil {
		t.Fatal(err)
	}
	wait(t, tab,
		`document.body.dataset.page === "story" && document.querySelector("tbody").innerText.includes("erred")`)
	shoot(t, tab, "cluster-story")
}

// TestLive requires that a page shows new tasks without a reload, and those of another scheduler on the same port.
func TestLive(t *testing.T) {
	c, url := start(t, 0, "")
	tab := open(t, Look{})
	visit(t, tab, url+"/#/progress", `document.querySelector("tr.empty") !== null`)
	if err := tab.Eval(`window.same = true`, nil); err != nil {
		t.Fatal(err)
	}
	compute(t, c, 20)
	wait(t, tab,
		`document.querySelectorAll("tbody tr").length === 3 && document.querySelector("tbody").innerText.includes("20")`)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector(".state").innerText === "disconnected, retrying"`)
	tab.Problems() // connections that were refused
	var port int
	if _, err := fmt.Sscanf(url, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	c, _ = start(t, port, "")
	wait(t, tab,
		`document.querySelector(".state").dataset.state === "live" && document.querySelector("tr.empty") !== null`)
	tab.Problems()
	compute(t, c, 30)
	wait(t, tab, `document.querySelector("tbody").innerText.includes("30")`)
	if err := tab.Eval(`location.hash = "#/stream"`, nil); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector(".streamlegend").innerText.includes("browser.total")`)
	var same bool
	if err := tab.Eval(`window.same === true`, &same); err != nil || !same {
		t.Errorf("got a reload of the page, %v, want none", err)
	}
	for _, p := range tab.Problems() {
		t.Errorf("got problem of the console %q, want none", p)
	}
	tab.Close() // before the scheduler
}

// TestToken requires that a page without the right token shows nothing, and one with it everything.
func TestToken(t *testing.T) {
	const token = "0123456789abcdef0123"
	_, url := start(t, 0, token)
	for _, query := range []string{"", "?token=wrong-wrong-wrong-wrong"} {
		tab := open(t, Look{})
		if err := tab.Go(url + "/" + query); err != nil {
			t.Fatal(err)
		}
		wait(t, tab, `document.body.innerText.toLowerCase().includes("token")`)
		var status int
		if err := tab.Eval(`fetch("/millstream/workers.json").then((r) => r.status)`,
			&status); err != nil || status != 401 {
			t.Errorf("%q: got status %d, %v, want 401", query, status, err)
		}
		tab.Problems() // of the refused requests
		tab.Close()
	}
	tab := open(t, Look{})
	visit(t, tab, url+"/?token="+token+"#/workers", `document.querySelectorAll("tbody tr").length === 3`)
	var address string
	if err := tab.Eval(`location.href`, &address); err != nil || strings.Contains(address, token) {
		t.Errorf("got address %s, %v, want one without the token", address, err)
	}
}

// TestForeignOrigin requires that a page of another server cannot read the dashboard.
func TestForeignOrigin(t *testing.T) {
	_, url := start(t, 0, "")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>other</title>")
	}))
	defer other.Close()
	tab := open(t, Look{})
	if err := tab.Go(other.URL); err != nil {
		t.Fatal(err)
	}
	for what, script := range map[string]string{
		"fetch": `fetch("` + url + `/millstream/workers.json").then((r) => r.text(), () => "refused")`,
		"events": `new Promise((done) => { const s = new EventSource("` + url + `/millstream/live");
			s.addEventListener("tick", () => done("tick")); s.onerror = () => done("refused"); })`,
	} {
		var got string
		if err := tab.Eval(script, &got); err != nil || got != "refused" {
			t.Errorf("%s: got %q, %v, want refused", what, got, err)
		}
	}
	tab.Problems() // of the refused requests
	tab.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/millstream/workers.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", other.URL)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("got status %s for a foreign Origin, want 403", answer.Status)
	}
}
