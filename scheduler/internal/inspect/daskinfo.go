package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// maxInfoRows bounds the rows of a table of a page.
const maxInfoRows = 1000

// infoPage is a page below /info.
type infoPage struct {
	Title  string
	Tables []infoTable
	Texts  []infoText
}

type infoTable struct {
	Title string
	Head  []string
	Rows  [][]infoCell
	More  int // rows that are left out
}

// infoCell is a text, with a link unless Link is "".
type infoCell struct{ Text, Link string }

type infoText struct{ Title, Text string }

const infoStyle = "body{font-family:sans-serif;margin:1em}table{border-collapse:collapse;margin:1em 0}" +
	"th,td{border:1px solid #999;padding:.2em .5em;text-align:left;vertical-align:top}pre{white-space:pre-wrap}"

var infoTemplate = template.Must(template.New("info").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title><style>` + infoStyle + `</style></head>
<body><nav><a href="../../">Dashboard</a> <a href="../main/workers.html">Workers</a>
<a href="../main/exceptions.html">Exceptions</a> <a href="../main/logs.html">Logs</a></nav>
<main><h1>{{.Title}}</h1>
{{range .Tables}}{{if .Title}}<h2>{{.Title}}</h2>
{{end}}<table>{{if .Head}}<thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead>
{{end}}<tbody>
{{range .Rows}}<tr>{{range .}}<td>{{if .Link}}<a href="{{.Link}}">{{.Text}}</a>{{else}}{{.Text}}{{end}}</td>{{end}}</tr>
{{end}}</tbody></table>
{{if .More}}<p>{{.More}} more</p>
{{end}}{{end}}{{range .Texts}}{{if .Title}}<h2>{{.Title}}</h2>
{{end}}<pre>{{.Text}}</pre>
{{end}}</main></body></html>
`))

var infoPolicy = func() string {
	h := sha256.Sum256([]byte(infoStyle))
	return httpguard.Policy("'sha256-"+base64.StdEncoding.EncodeToString(h[:])+"'", "")
}()

var errNoPage = errors.New("not found")

// daskInfo serves the pages below /info: lists of workers, tasks, logs and call stacks.
func (s *Inspector) daskInfo(w http.ResponseWriter, r *http.Request) {
	p, err := s.infoPage(r.Context(), strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/info/"), ".html"))
	switch {
	case errors.Is(err, errNoPage):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.Header().Set("Content-Security-Policy", infoPolicy)
		_ = infoTemplate.Execute(w, p) // fails only if the client has disconnected
	}
}

// infoPage returns the page with a name such as "main/workers" or "worker/ADDRESS".
func (s *Inspector) infoPage(ctx context.Context, name string) (*infoPage, error) {
	in := func(f func() (*infoPage, error)) (*infoPage, error) { return loop.Ask(ctx, s.Loop, f) }
	switch name {
	case "main/workers":
		return in(func() (*infoPage, error) {
			all := s.workerTable("", slices.Collect(s.State.Workers()))
			return &infoPage{Title: "Workers", Tables: []infoTable{all}}, nil
		})
	case "main/exceptions":
		return in(s.exceptionsPage)
	case "main/logs":
		lines, err := s.Ask(ctx, "get_logs", nil)
		return &infoPage{Title: "Logs", Texts: []infoText{{Text: logText(lines)}}}, err
	}
	kind, of, _ := strings.Cut(name, "/")
	switch kind {
	case "worker":
		return in(func() (*infoPage, error) { return s.workerPage(of) })
	case "task":
		return in(func() (*infoPage, error) { return s.taskPage(of) })
	case "logs":
		return s.answerPage(ctx, "Logs: ", of, "worker_logs", func(w *peers.Worker) msgpack.Map {
			return msgpack.MapOf("workers", []any{w.Address})
		})
	case "call-stacks":
		return s.answerPage(ctx, "Call stacks: ", of, "call_stack", func(w *peers.Worker) msgpack.Map {
			keys := []any{}
			if sw := s.State.Worker(w.ID); sw != nil {
				for t := range sw.Processing() {
					if keys = append(keys, t.Key().Raw()); len(keys) == maxInfoRows {
						break
					}
				}
			}
			return msgpack.MapOf("keys", keys)
		})
	case "call-stack":
		key, err := loop.Ask(ctx, s.Loop, func() (any, error) {
			if t := taskOf(s.State, of); t != nil {
				return t.Key().Raw(), nil
			}
			return nil, errNoPage
		})
		if err != nil {
			return nil, err
		}
		answer, err := s.Ask(ctx, "call_stack", msgpack.MapOf("keys", []any{key}))
		p := &infoPage{Title: "Call stack: " + of, Texts: answerTexts(answer)}
		if len(p.Texts) == 0 {
			p.Texts = []infoText{{Text: "Task not actively running. It may be finished or not yet started."}}
		}
		return p, err
	}
	return nil, errNoPage
}

// answerPage returns a page with what a worker answers to an op.
func (s *Inspector) answerPage(ctx context.Context, title, worker, op string,
	args func(*peers.Worker) msgpack.Map) (*infoPage, error) {
	request, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		w := s.Workers.ByAddress[worker]
		if w == nil {
			return nil, errNoPage
		}
		return args(w), nil
	})
	if err != nil {
		return nil, err
	}
	answer, err := s.Ask(ctx, op, request)
	return &infoPage{Title: title + worker, Texts: answerTexts(answer)}, err
}

// answerTexts returns the answers of workers: lines of a log, or stacks by key.
func answerTexts(answer any) []infoText {
	workers, _ := plain(answer).(map[string]any)
	var out []infoText
	for address, v := range workers {
		stacks, ok := v.(map[string]any)
		if !ok {
			out = append(out, infoText{Title: "Worker: " + address, Text: logText(v)})
		}
		for key, lines := range stacks {
			out = append(out, infoText{Title: "Worker: " + address + " Key: " + key, Text: logText(lines)})
		}
	}
	slices.SortFunc(out, func(a, b infoText) int { return cmp.Compare(a.Title, b.Title) })
	return out
}

// logText returns lines, or pairs of level and line, as a text.
func logText(v any) string {
	list, ok := plain(v).([]any)
	if !ok {
		return fmt.Sprint(plain(v))
	}
	var b strings.Builder
	for _, x := range list {
		if pair, ok := x.([]any); ok && len(pair) > 0 {
			x = pair[len(pair)-1]
		}
		fmt.Fprintln(&b, x)
	}
	return b.String()
}

func workerLink(address string) infoCell {
	return infoCell{address, "../worker/" + url.PathEscape(address) + ".html"}
}

func taskLink(t *state.Task) infoCell {
	key := t.Key().String()
	return infoCell{key, "../task/" + url.PathEscape(key) + ".html"}
}

func text(format string, args ...any) infoCell { return infoCell{Text: fmt.Sprintf(format, args...)} }

// workerTable lists workers. It runs in the loop.
func (s *Inspector) workerTable(title string, list []*state.Worker) infoTable {
	t := infoTable{Title: title, Head: []string{"Worker", "Name", "Cores", "Memory limit", "Memory use", "Occupancy",
		"Processing", "In memory", "Services", "Logs", "Last seen"}}
	for _, sw := range list {
		w, ok := sw.Data.(*peers.Worker)
		if !ok {
			continue
		}
		if len(t.Rows) == maxInfoRows {
			t.More++
			continue
		}
		metrics, _ := w.Metrics.(msgpack.Map)
		v, _ := metrics.Get("memory")
		memory, _ := val.Number(v)
		t.Rows = append(t.Rows, []infoCell{workerLink(w.Address), text("%v", plain(w.Name)), text("%d", sw.Threads()),
			text("%s", byteText(float64(sw.MemoryLimit()))), text("%s", byteText(memory)),
			text("%.3g s", s.State.Occupancy(sw)), text("%d", sw.NumProcessing()), text("%d", sw.NumHeld()),
			serviceLink(w), {"logs", "../logs/" + url.PathEscape(w.Address) + ".html"},
			text("%v ago", s.Loop.Now().Sub(w.LastSeen).Round(time.Millisecond))})
	}
	return t
}

// serviceLink returns the link to the HTTP server of a worker.
func serviceLink(w *peers.Worker) infoCell {
	services, _ := w.Services.(msgpack.Map)
	v, _ := services.Get("dashboard")
	port, ok := val.Number(v)
	if !ok || port < 1 || port > 65535 {
		return infoCell{}
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(w.Host, strconv.Itoa(int(port))), Path: "/status"}
	return infoCell{"dashboard", u.String()}
}

// byteText returns a number of bytes with a unit.
func byteText(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if n < 1024 {
			return strconv.FormatFloat(n, 'g', 4, 64) + " " + unit
		}
		n /= 1024
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + " PiB"
}

func (s *Inspector) workerPage(address string) (*infoPage, error) {
	w := s.Workers.ByAddress[address]
	if w == nil {
		return nil, errNoPage
	}
	sw := s.State.Worker(w.ID)
	if sw == nil {
		return nil, errNoPage
	}
	stacks := infoCell{"call stacks", "../call-stacks/" + url.PathEscape(address) + ".html"}
	p := &infoPage{Title: "Worker: " + address, Tables: []infoTable{s.workerTable("", []*state.Worker{sw}),
		{Rows: [][]infoCell{{text("Running tasks"), stacks}}}}}
	held := infoTable{Title: "In memory", Head: []string{"Task", "State", "Size"}}
	for i := range sw.NumHeld() {
		held.add(sw.Held(i))
	}
	runs := infoTable{Title: "Processing", Head: held.Head}
	for t := range sw.Processing() {
		runs.add(t)
	}
	p.Tables = append(p.Tables, runs, held)
	return p, nil
}

// add adds a task.
func (t *infoTable) add(x *state.Task) {
	if len(t.Rows) == maxInfoRows {
		t.More++
		return
	}
	size := ""
	if x.NBytes() >= 0 {
		size = byteText(float64(x.NBytes()))
	}
	t.Rows = append(t.Rows, []infoCell{taskLink(x), text("%s", x.State()), text("%s", size)})
}

func (s *Inspector) taskPage(key string) (*infoPage, error) {
	t := taskOf(s.State, key)
	if t == nil {
		return nil, errNoPage
	}
	own := infoTable{Rows: [][]infoCell{{text("Status"), text("%s", t.State())}}}
	row := func(name string, c infoCell) { own.Rows = append(own.Rows, []infoCell{text("%s", name), c}) }
	if w := t.ProcessingOn(); w != nil {
		row("Processing on", workerLink(w.Address()))
		row("Call stack", infoCell{"call stack", "../call-stack/" + url.PathEscape(t.Key().String()) + ".html"})
	}
	if kind := t.Type(); kind != nil {
		row("Type", text("%s", kind.Name))
	}
	if t.NBytes() >= 0 {
		row("Bytes", text("%s", byteText(float64(t.NBytes()))))
	}
	prio := t.Priority()
	row("Priority", text("(%v, %v, %v)", prio.User+0, prio.Generation, prio.Order))
	row("Suspicious", text("%d", t.Suspicious()))
	row("Retries", text("%d", t.Retries()))
	p := &infoPage{Title: "Task: " + t.Key().String(), Tables: []infoTable{own}}
	if f := t.Failure(); f != nil {
		p.Texts = append(p.Texts, infoText{"Exception", f.ExceptionText}, infoText{"Traceback", f.TracebackText})
	}
	deps := infoTable{Title: "Dependencies", Head: []string{"Key", "State", "Size"}}
	for i := range t.NumDeps() {
		deps.add(t.Dep(i))
	}
	dependents := infoTable{Title: "Dependents", Head: deps.Head}
	for i := range t.NumDependents() {
		dependents.add(t.Dependent(i))
	}
	var holders []*state.Worker
	for i := range t.NumHolders() {
		holders = append(holders, t.Holder(i))
	}
	clients := infoTable{Title: "Clients with future"}
	for c := range t.WhoWants() {
		if len(clients.Rows) == maxInfoRows {
			clients.More++
			continue
		}
		clients.Rows = append(clients.Rows, []infoCell{text("%s", c.Name())})
	}
	story := infoTable{Title: "Transition log", Head: []string{"Time", "Key", "Start", "Finish", "Stimulus"}}
	for _, x := range s.State.Story(t.Key()) {
		if len(story.Rows) == maxInfoRows {
			story.More++
			continue
		}
		story.Rows = append(story.Rows, []infoCell{text("%s", x.When.UTC().Format(time.RFC3339Nano)),
			text("%s", x.Key), text("%s", x.From), text("%s", x.To), text("%s-%d", x.Cause, x.Event)})
	}
	p.Tables = append(p.Tables, deps, dependents, s.workerTable("Workers with data", holders), clients, story)
	return p, nil
}

// exceptionsPage lists the tasks that failed by themselves.
func (s *Inspector) exceptionsPage() (*infoPage, error) {
	t := infoTable{Head: []string{"Task", "Exception", "Traceback", "Worker"}}
	left := s.State.Count(state.Erred)
	for x := range s.State.Tasks() {
		if left == 0 || len(t.Rows) == maxInfoRows {
			break
		}
		if x.State() != state.Erred {
			continue
		}
		left--
		if f := x.Failure(); f != nil && f.Key == x.Key() {
			t.Rows = append(t.Rows, []infoCell{taskLink(x), text("%s", f.ExceptionText), text("%s", f.TracebackText),
				workerLink(f.Worker)})
		}
	}
	t.More = left
	return &infoPage{Title: "Exceptions", Tables: []infoTable{t}}, nil
}
