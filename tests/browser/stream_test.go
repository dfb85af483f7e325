package browser

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"go.millstream.dev/tests/browser/fake"
)

// streamTab opens the task stream of a history of 60 s that ended.
func streamTab(t *testing.T, look Look) *Tab {
	t.Helper()
	server := httptest.NewServer(fake.New("a", fake.NewHistory(4, 60)).Handler())
	t.Cleanup(server.CloseClientConnections)
	tab := open(t, look)
	visit(t, tab, server.URL+"/#/stream?start=0&stop=60000000", ready)
	return tab
}

const ready = `document.querySelector(".plot canvas").dataset.tiles === "ready"`

// window returns the length of time that the task stream shows, as text.
func window(t *testing.T, tab *Tab) string {
	t.Helper()
	var out string
	if err := tab.Eval(`document.querySelector(".plot canvas").dataset.window`, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func keys(t *testing.T, tab *Tab, keys string) {
	t.Helper()
	before := window(t, tab)
	if err := tab.Focus(".plot canvas"); err != nil {
		t.Fatal(err)
	}
	if err := tab.Do(chromedp.KeyEvent(keys)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, fmt.Sprintf(`document.querySelector(".plot canvas").dataset.window !== %q`, before))
}

func TestStreamKeys(t *testing.T) {
	tab := streamTab(t, Look{})
	var from, to int64
	read := func() int64 {
		t.Helper()
		if _, err := fmt.Sscanf(window(t, tab), "%d-%d", &from, &to); err != nil {
			t.Fatal(err)
		}
		return to - from
	}
	whole := read()
	keys(t, tab, "+")
	if got := read(); got >= whole {
		t.Errorf("after +: got a window of %d µs, want less than %d", got, whole)
	}
	narrow, before := read(), from
	keys(t, tab, kb.ArrowRight)
	if read(); from <= before || to-from != narrow {
		t.Errorf("after right: got a window from %d to %d, want one of %d after %d", from, to, narrow, before)
	}
	keys(t, tab, kb.ArrowLeft)
	keys(t, tab, "-")
	if got := read(); got <= narrow {
		t.Errorf("after -: got a window of %d µs, want more than %d", got, narrow)
	}
	keys(t, tab, "0")
	if got := read(); got < 60e6 || got > 70e6 {
		t.Errorf("after 0: got a window of %d µs, want the whole minute", got)
	}
	if err := tab.Do(chromedp.KeyEvent("?")); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector("dialog").open`)
	shoot(t, tab, "stream-help")
	if err := tab.Do(chromedp.KeyEvent(kb.Escape)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `!document.querySelector("dialog").open`)
	keys(t, tab, "f")
	wait(t, tab, `document.querySelector("button[aria-pressed=true]").innerText === "Follow"`)
}

// drag moves the pointer with the button pressed.
func drag(x0, y0, x1, y1 float64, m input.Modifier) chromedp.Tasks {
	event := func(kind input.MouseType, x, y float64) chromedp.Action {
		return input.DispatchMouseEvent(kind, x, y).WithButton(input.Left).WithModifiers(m).WithClickCount(1)
	}
	return chromedp.Tasks{event(input.MousePressed, x0, y0), event(input.MouseMoved, (x0+x1)/2, (y0+y1)/2),
		event(input.MouseMoved, x1, y1), event(input.MouseReleased, x1, y1)}
}

func TestStreamPointer(t *testing.T) {
	tab := streamTab(t, Look{})
	before := window(t, tab)
	if err := tab.Do(input.DispatchMouseEvent(input.MouseWheel, 700,
		300).WithDeltaX(0).WithDeltaY(-1800)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, fmt.Sprintf(`document.querySelector(".plot canvas").dataset.window !== %q && %s`, before, ready))
	before = window(t, tab)
	if err := tab.Do(drag(700, 300, 600, 300, 0)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, fmt.Sprintf(`document.querySelector(".plot canvas").dataset.window !== %q`, before))
	// The names of spans are drawn when all of them were fetched.
	wait(t, tab, `document.querySelector(".plot canvas").dataset.exact === "true"`)
	shoot(t, tab, "stream-close")
	// Some place of the first row has a task.
	if err := tab.Do(chromedp.ActionFunc(hoverUntilTip)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab,
		`/duration/.test(document.querySelector(".tip").innerText) && /prefix/.test(document.querySelector(".tip").innerText)`)
	shoot(t, tab, "stream-tip")
	if err := tab.Do(drag(400, 200, 900, 500, input.ModifierShift)); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.querySelector(".panel caption")?.innerText === "Time by kind"`)
	wait(t, tab, `document.querySelectorAll(".panel tbody tr").length > 1`)
	shoot(t, tab, "stream-selection")
	violations, err := tab.Audit(axe(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%s (%s): %+v", v.ID, v.Help, v.Nodes)
	}
}
