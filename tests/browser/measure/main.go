// Measure fills a history, serves its dashboard, and measures the page in chromium: the time until the task stream is
// painted, from an input to the painted frame, and memory. It does the same for a report file. `make dashboard-bench`
// runs it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/spans/spanstest"
	"go.millstream.dev/internal/dashboard/web"
	"go.millstream.dev/tests/browser"
)

func main() {
	workers := flag.Int("workers", 1000, "number of workers")
	tasks := flag.Int("tasks", 10_000_000, "number of tasks")
	reported := flag.Int("report", 100_000, "number of tasks of the report file")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, *workers, *tasks, *reported); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, workers, tasks, reported int) error {
	chrome, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer chrome.Close()
	dir, err := os.MkdirTemp("", "millstream-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := fill(ctx, filepath.Join(dir, "history"), workers, 2, tasks)
	if err != nil {
		return err
	}
	defer store.Close()
	d := dashboard.New(store, nil)
	defer d.Close()
	mux := http.NewServeMux()
	d.Register(mux)
	mux.Handle("/", web.Handler())
	server := httptest.NewServer(mux)
	defer server.CloseClientConnections()
	if err := stream(ctx, chrome, server.URL); err != nil {
		return err
	}
	return report(ctx, chrome, dir, reported)
}

// fill returns a store with a history in a folder.
func fill(ctx context.Context, dir string, workers, threads, tasks int) (*spans.Store, error) {
	begin := time.Now()
	store, err := spans.Open(spans.Config{Dir: dir, Origin: begin.Add(-time.Hour)})
	if err != nil {
		return nil, err
	}
	o := spanstest.Realistic(workers, threads, tasks)
	o.Start = begin.Add(-30 * time.Minute)
	spanstest.Fill(store, o)
	if err := store.Sync(ctx); err != nil {
		return nil, err
	}
	m := store.Meta()
	fmt.Printf("history: %d spans of %d tasks, %d workers, %d rows, %v; dropped %d; made in %.1fs\n", m.Spans, tasks,
		workers, m.Rows, time.Duration(m.Last-m.First)*time.Microsecond, m.Dropped, time.Since(begin).Seconds())
	return store, nil
}

// watch records when the task stream is painted, and the time from each input to the frame after it.
const watch = `
window.measured = {first: 0, whole: 0, inputs: []};
let script = 0; // time of the page's work in frames since the last input
const frames = requestAnimationFrame;
window.requestAnimationFrame = (f) => frames((t) => {
	const begin = performance.now();
	f(t);
	script += performance.now() - begin;
});
const watch = () => {
	const c = document.querySelector(".plot canvas");
	const state = c?.dataset.tiles;
	if (state && state !== "loading" && !measured.first) measured.first = performance.now();
	if (state === "ready" && !measured.whole) measured.whole = performance.now();
	if (!measured.whole) requestAnimationFrame(watch);
};
requestAnimationFrame(watch);
const input = (e) => {
	const m = {kind: e.type, at: e.timeStamp, late: performance.now() - e.timeStamp, script: 0, frame: 0, state: "", whole: 0};
	script = 0;
	measured.inputs.push(m);
	const canvas = document.querySelector(".plot canvas");
	// The page paints in the next frame; a message is delivered after that frame.
	requestAnimationFrame(() => {
		const c = new MessageChannel();
		c.port1.onmessage = () => {
			m.frame = performance.now() - m.at;
			m.script = script;
			m.state = canvas.dataset.tiles;
		};
		c.port2.postMessage(0);
	});
	const refined = () => {
		if (m.frame > 0 && canvas.dataset.tiles === "ready") m.whole = performance.now() - m.at;
		else requestAnimationFrame(refined);
	};
	requestAnimationFrame(refined);
};
for (const kind of ["wheel", "keydown"]) addEventListener(kind, input, {capture: true, passive: true});
`

type measured struct {
	First, Whole float64
	Inputs       []struct {
		Kind                       string
		Late, Script, Frame, Whole float64
		State                      string
	}
}

// load opens a URL and waits until the task stream is whole.
func load(ctx context.Context, tab *browser.Tab, url string) (m measured, err error) {
	err = tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}))
	if err == nil {
		err = tab.Go(url)
	}
	if err == nil {
		err = tab.Wait(ctx, `measured.whole > 0`)
	}
	if err == nil {
		err = read(tab, &m)
	}
	return m, err
}

func read(tab *browser.Tab, m *measured) error {
	var text string
	if err := tab.Eval(`JSON.stringify(measured)`, &text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), m)
}

// stream measures the live page.
func stream(ctx context.Context, chrome *browser.Chrome, address string) error {
	tab, err := chrome.Open(browser.Look{Width: 1440, Height: 900})
	if err != nil {
		return err
	}
	defer tab.Close()
	for _, name := range []string{"cold server", "warm server"} {
		m, err := load(ctx, tab, address+"/?"+fmt.Sprint(time.Now().UnixNano())+"#/stream")
		if err != nil {
			return err
		}
		fmt.Printf("page, %s: painted %.0f ms after the start of navigation, whole after %.0f ms\n", name,
			m.First, m.Whole)
	}
	if err := zooms(ctx, tab, "zooms and pans"); err != nil {
		return err
	}
	if err := memory(chrome, tab); err != nil {
		return err
	}
	// What of these times is that of the browser.
	blank, err := chrome.Open(browser.Look{Width: 1440, Height: 900})
	if err != nil {
		return err
	}
	defer blank.Close()
	if _, err := load(ctx, blank, "data:text/html,"+url.PathEscape(blankPage)); err != nil {
		return err
	}
	return zooms(ctx, blank, "the same inputs to a page with an empty canvas")
}

// blankPage has a canvas of the same size, which it clears in the frame after an input.
const blankPage = `<!doctype html><body style="margin:0"><div class="plot"><canvas width="1440" height="800"
data-tiles="ready"></canvas></div><script>
const c = document.querySelector("canvas"), g = c.getContext("2d");
let frame = 0, n = 0;
c.addEventListener("wheel", (e) => {
	e.preventDefault();
	if (frame === 0) frame = requestAnimationFrame(() => {
		frame = 0;
		g.fillStyle = n++ % 2 ? "white" : "silver";
		g.fillRect(0, 0, c.width, c.height);
	});
}, {passive: false});
</script>`

// zooms sends 60 inputs to a page and prints how long it took to paint the frame after each.
func zooms(ctx context.Context, tab *browser.Tab, name string) error {
	for i := range 60 {
		var a chromedp.Action
		switch {
		case i%6 < 4: // zoom at changing places, in for a while, then out
			delta := -400.0
			if i%20 >= 14 {
				delta = 700
			}
			a = input.DispatchMouseEvent(input.MouseWheel, 300+float64(i*37%1000),
				200+float64(i*53%400)).WithDeltaX(0).
				WithDeltaY(delta)
		case i%6 == 4:
			a = input.DispatchMouseEvent(input.MouseWheel, 700, 400).WithDeltaX(500).WithDeltaY(0)
		default:
			a = input.DispatchMouseEvent(input.MouseWheel, 700, 400).WithModifiers(input.ModifierAlt).WithDeltaX(0).
				WithDeltaY(-300 + float64(i%2)*500)
		}
		if err := tab.Do(a); err != nil {
			return err
		}
		if err := tab.Wait(ctx, `measured.inputs.every((m) => m.whole > 0)`); err != nil {
			return err
		}
	}
	var m measured
	if err := read(tab, &m); err != nil {
		return err
	}
	var late, scripts, frames, all []float64
	empty := 0
	for _, x := range m.Inputs {
		late, scripts = append(late, x.Late), append(scripts, x.Script)
		frames, all = append(frames, x.Frame), append(all, x.Whole)
		if x.State == "loading" {
			empty++
		}
	}
	fmt.Printf("%d %s: input to painted frame %s; all tiles there %s; frames with a gap: %d\n",
		len(frames), name, quantiles(frames), quantiles(all), empty)
	fmt.Printf("of these: input to the page's handler %s; work of the page in frames %s\n", quantiles(late),
		quantiles(scripts))
	return nil
}

func quantiles(v []float64) string {
	slices.Sort(v)
	if len(v) == 0 {
		return "none"
	}
	return fmt.Sprintf("median %.0f ms, 95%% %.0f ms, most %.0f ms", v[len(v)/2], v[len(v)*95/100], v[len(v)-1])
}

func memory(chrome *browser.Chrome, tab *browser.Tab) error {
	resident, own, err := rendererMemory(chrome.PID())
	if err != nil {
		return err
	}
	fmt.Printf("process of the page: %.0f MB resident, %.0f MB of it not from files\n", float64(resident)/1e6,
		float64(own)/1e6)
	return tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		if err := performance.Enable().Do(ctx); err != nil {
			return err
		}
		list, err := performance.GetMetrics().Do(ctx)
		if err != nil {
			return err
		}
		for _, m := range list {
			if m.Name == "JSHeapUsedSize" || m.Name == "JSHeapTotalSize" {
				fmt.Printf("%s: %.1f MB\n", m.Name, m.Value/1e6)
			}
		}
		return nil
	}))
}

// report measures a report file.
func report(ctx context.Context, chrome *browser.Chrome, dir string, tasks int) error {
	store, err := fill(ctx, filepath.Join(dir, "small"), 50, 2, tasks)
	if err != nil {
		return err
	}
	defer store.Close()
	d := dashboard.New(store, nil)
	defer d.Close()
	var b bytes.Buffer
	begin := time.Now()
	if err := d.WriteReport(ctx, &b, dashboard.ReportOptions{}); err != nil {
		return err
	}
	took := time.Since(begin)
	name := filepath.Join(dir, "report.html")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return err
	}
	tab, err := chrome.Open(browser.Look{Width: 1440, Height: 900, Offline: true})
	if err != nil {
		return err
	}
	defer tab.Close()
	m, err := load(ctx, tab, "file://"+name+"#/stream")
	if err != nil {
		return err
	}
	fmt.Printf("report of %d tasks: %.2f MB, written in %.1fs; painted after %.0f ms, whole after %.0f ms\n", tasks,
		float64(b.Len())/1e6, took.Seconds(), m.First, m.Whole)
	return memory(chrome, tab)
}
