// Package browser runs the dashboard's page in Debian's chromium. Its tests need the program chromium, which
// `scripts/setup test` installs.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Chrome is a running browser with a profile of its own.
type Chrome struct {
	ctx    context.Context
	cancel []context.CancelFunc
	dir    string
}

// Start starts the browser.
func Start(ctx context.Context) (*Chrome, error) {
	dir, err := os.MkdirTemp("", "millstream-browser-")
	if err != nil {
		return nil, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(dir), chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.Flag("js-flags", "--expose-gc"),
	}
	c := &Chrome{dir: dir}
	alloc, cancel := chromedp.NewExecAllocator(ctx, options...)
	c.cancel = append(c.cancel, cancel)
	// The browser may know events that the library does not.
	c.ctx, cancel = chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	c.cancel = append(c.cancel, cancel)
	if err := chromedp.Run(c.ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("browser: start chromium: %w; run scripts/setup test", err)
	}
	return c, nil
}

// Close ends the browser and removes its profile.
func (c *Chrome) Close() {
	if c.ctx != nil {
		_ = chromedp.Cancel(c.ctx) // the process is killed below if it does not end
	}
	for i := len(c.cancel) - 1; i >= 0; i-- {
		c.cancel[i]()
	}
	_ = os.RemoveAll(c.dir)
}

// PID returns the id of the browser's process.
func (c *Chrome) PID() int { return chromedp.FromContext(c.ctx).Browser.Process().Pid }

// Tab is one page of the browser. It records what a developer would see in the console.
type Tab struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	problems []string // guarded by mu
	requests []string // guarded by mu
}

// Look is how a page is shown.
type Look struct {
	Width, Height int64
	Dark          bool
	Mobile        bool
	Offline       bool
}

// Open opens an empty tab.
func (c *Chrome) Open(look Look) (*Tab, error) {
	t := &Tab{}
	t.ctx, t.cancel = chromedp.NewContext(c.ctx)
	chromedp.ListenTarget(t.ctx, t.listen)
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	if look.Width == 0 {
		look.Width, look.Height = 1280, 800
	}
	media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	actions := []chromedp.Action{log.Enable(), network.Enable(), page.Enable(), runtime.Enable(),
		emulation.SetDeviceMetricsOverride(look.Width, look.Height, 1, look.Mobile),
		emulation.SetEmulatedMedia().WithFeatures(media)}
	if look.Offline {
		actions = append(actions, network.EmulateNetworkConditions(true, 0, -1, -1))
	}
	if err := chromedp.Run(t.ctx, actions...); err != nil {
		t.cancel()
		return nil, err
	}
	return t, nil
}

// Close closes the tab.
func (t *Tab) Close() { t.cancel() }

func (t *Tab) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			var args []string
			for _, a := range e.Args {
				args = append(args, string(a.Value)+a.Description)
			}
			t.problems = append(t.problems, "console: "+strings.Join(args, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			t.problems = append(t.problems, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	}
}

// Problems returns errors and warnings of the console, exceptions and violations of the policy, and forgets them.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.problems
	t.problems = nil
	return p
}

// Requests returns the addresses that were asked for, and forgets them.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.requests
	t.requests = nil
	return r
}

// Go opens an address.
func (t *Tab) Go(url string) error { return t.Do(chromedp.Navigate(url)) }

// actionTimeout bounds the actions of one call of Do or Eval.
const actionTimeout = 2 * time.Minute

// Do runs actions. Actions that take a selector, such as chromedp.Click, may not find it after a navigation to another
// site: the library can miss the new document. Click does not depend on it.
func (t *Tab) Do(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(t.ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// Click clicks the element that a CSS selector names.
func (t *Tab) Click(selector string) error {
	return t.Eval(fmt.Sprintf(`document.querySelector(%q).click()`, selector), nil)
}

// Focus moves the keyboard focus to the element that a CSS selector names.
func (t *Tab) Focus(selector string) error {
	return t.Eval(fmt.Sprintf(`document.querySelector(%q).focus()`, selector), nil)
}

// Eval evaluates an expression as if the user caused it, waits for its promise, and decodes its value.
func (t *Tab) Eval(expression string, into any) error {
	return t.Do(chromedp.Evaluate(expression, into, awaitPromise))
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams {
	return p.WithAwaitPromise(true).WithUserGesture(true)
}

// Wait waits until an expression is true.
func (t *Tab) Wait(ctx context.Context, expression string) error {
	poll := fmt.Sprintf(`new Promise((done) => {
		const check = () => { let ok = false; try { ok = (%s); } catch {} ok ? done(true) : setTimeout(check, 20); };
		check();
	})`, expression)
	waiting, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := chromedp.Run(waiting, chromedp.Evaluate(poll, nil, awaitPromise))
	if err == nil || ctx.Err() == nil {
		return err
	}
	var text string
	_ = t.Eval(`document.body.innerText.slice(0, 600)`, &text)
	return fmt.Errorf("browser: waiting for %s: %w; the page shows:\n%s", expression, context.Cause(ctx), text)
}

// Screenshot returns a PNG of the window.
func (t *Tab) Screenshot() ([]byte, error) {
	var png []byte
	err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot(&png))
	return png, err
}

// Violation is a finding of axe-core.
type Violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// Audit runs axe-core, whose script is given, and returns what it finds.
func (t *Tab) Audit(axe string) ([]Violation, error) {
	if err := t.Eval(axe+";0", nil); err != nil {
		return nil, err
	}
	var out string
	err := t.Eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`, &out)
	if err != nil {
		return nil, err
	}
	var v []Violation
	return v, json.Unmarshal([]byte(out), &v)
}

// hoverUntilTip moves the pointer along the first row of the task stream until there is a tooltip.
func hoverUntilTip(ctx context.Context) error {
	for x := 300.0; x < 1200; x += 7 {
		if err := input.DispatchMouseEvent(input.MouseMoved, x, 178).Do(ctx); err != nil {
			return err
		}
		var shown bool
		if err := chromedp.Evaluate(`!document.querySelector(".tip").hidden`, &shown).Do(ctx); err != nil || shown {
			return err
		}
	}
	return errors.New("browser: no tooltip in the first row")
}
