package httpguard

import (
	"html/template"
	"net/http"
	"sync"
	"time"
)

// page is a page of this package.
type page struct {
	Title, Refresh string
	Text           []string
	Form           bool
}

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
{{- if .Refresh}}<meta http-equiv="refresh" content="0;url={{.Refresh}}">{{end}}</head>
<body><main><h1>{{.Title}}</h1>
{{range .Text}}{{if .}}<p>{{.}}</p>
{{end}}{{end}}
{{- if .Form}}<form method="get"><label>Token: <input name="token" type="password" autocomplete="off"></label>
<button>Open</button></form>
{{end}}{{if .Refresh}}<p><a href="{{.Refresh}}">Continue</a></p>
{{end}}</main></body></html>
`))

func writePage(w http.ResponseWriter, code int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_ = pageTemplate.Execute(w, p) // fails only if the client has disconnected
}

// limiter allows rate events per second on average, and up to burst at once.
type limiter struct {
	rate, burst float64

	mu   sync.Mutex
	used float64   // guarded by mu
	last time.Time // guarded by mu
}

func (l *limiter) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last.IsZero() {
		l.used = max(0, l.used-now.Sub(l.last).Seconds()*l.rate)
	}
	l.last = now
	if l.used+1 > l.burst {
		return false
	}
	l.used++
	return true
}
