package metrics

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// daskPages are the pages of the dashboard of Dask's worker that are redirects here. /status is a page of its own.
var daskPages = map[string]string{"/system": "./status", "/profile": "./status", "/profile-server": "./status",
	"/info": "./status", "/counters": "./metrics"}

// redirectDask adds the pages of Dask's worker to a mux, by relative links, which are right behind a proxy, too.
func redirectDask(mux *http.ServeMux) {
	for path, to := range daskPages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		})
	}
}

var statusTemplate = template.Must(template.New("status").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Worker {{.Name}}</title></head>
<body><main><h1>Worker {{.Name}}</h1>
<table><tbody>
{{range .Rows}}<tr><th scope="row">{{index . 0}}</th><td>{{index . 1}}</td></tr>
{{end}}</tbody></table>
<p><a href="./">Pages of this worker</a></p></main></body></html>
`))

// Status returns a handler that shows a summary as a page, with the figures of Dask's page of a worker.
func Status(summary func() Summary) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := summary()
		page := struct {
			Name string
			Rows [][2]string
		}{Name: s.Name}
		add := func(name, format string, args ...any) {
			page.Rows = append(page.Rows, [2]string{name, fmt.Sprintf(format, args...)})
		}
		add("Address", "%s", s.Address)
		add("Scheduler", "%s", s.Scheduler)
		add("Status", "%s", s.Status)
		add("Data connections", "%s", strings.Join(s.DataAddresses, " "))
		add("Executing", "%d / %d", s.Tasks["executing"], s.Threads)
		for _, st := range States {
			if n := s.Tasks[st.String()]; n > 0 && st.String() != "executing" {
				add("Tasks "+st.String(), "%d", n)
			}
		}
		add("Tasks executed", "%d", s.Executed)
		limit := "no limit"
		if s.Limit > 0 {
			limit = mebibytes(s.Limit)
		}
		add("Memory of the process", "%s / %s", mebibytes(s.Memory), limit)
		add("Results in memory", "%s", mebibytes(s.Managed-s.Spilled))
		add("Results on disk", "%s", mebibytes(s.Spilled))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = statusTemplate.Execute(w, page) // fails only if the client has disconnected
	}
}

func mebibytes(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }
