package inspect

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// daskPages are the pages of Dask's dashboard, and the pages of this one with the same content.
var daskPages = map[string]string{
	"/status": "#/stream", "/tasks": "#/stream", "/stealing": "#/stream",
	"/workers": "#/workers", "/system": "#/workers", "/gpu": "#/workers",
	"/profile": "#/profile", "/profile-server": "#/profile",
	"/graph": "#/graph", "/groups": "#/graph",
	"/hardware": "#/bandwidth", "/shuffle": "#/bandwidth",
	"/exceptions": "#/failures", "/events": "#/failures",
	"/counters": "metrics",

	"/individual-task-stream":                "#/stream",
	"/individual-progress":                   "#/progress",
	"/individual-graph":                      "#/graph",
	"/individual-groups":                     "#/graph",
	"/individual-group-progress":             "#/progress",
	"/individual-workers-memory":             "#/workers",
	"/individual-cluster-memory":             "#/memory",
	"/individual-workers-transfer-bytes":     "#/bandwidth",
	"/individual-cpu":                        "#/workers",
	"/individual-nprocessing":                "#/workers",
	"/individual-occupancy":                  "#/workers",
	"/individual-workers":                    "#/workers",
	"/individual-exceptions":                 "#/failures",
	"/individual-bandwidth-types":            "#/bandwidth",
	"/individual-bandwidth-workers":          "#/bandwidth",
	"/individual-workers-network":            "#/bandwidth",
	"/individual-workers-disk":               "#/workers",
	"/individual-workers-network-timeseries": "#/bandwidth",
	"/individual-workers-cpu-timeseries":     "#/workers",
	"/individual-workers-memory-timeseries":  "#/memory",
	"/individual-workers-disk-timeseries":    "#/workers",
	"/individual-memory-by-key":              "#/progress",
	"/individual-compute-time-per-key":       "#/progress",
	"/individual-aggregate-time-per-action":  "#/why",
	"/individual-scheduler-system":           "#/workers",
	"/individual-contention":                 "#/why",
	"/individual-fine-performance-metrics":   "#/why",
	"/individual-profile":                    "#/profile",
	"/individual-profile-server":             "#/profile",
	"/individual-gpu-memory":                 "#/workers",
	"/individual-gpu-utilization":            "#/workers",
	"/individual-rmm-memory":                 "#/workers",
}

// daskFiles are the other paths of Dask, without those of its API.
var daskFiles = []string{"/info", "/info/call-stack/(.*).html", "/info/call-stacks/(.*).html", "/info/logs/(.*).html",
	"/info/main/exceptions.html", "/info/main/logs.html", "/info/main/workers.html", "/info/task/(.*).html",
	"/info/worker/(.*).html", "/individual-plots.json", "/json/counts.json", "/json/identity.json", "/json/index.html",
	"/health", "/metrics", "/sitemap.json"}

// daskPaths serves the paths of Dask's scheduler that tools and bookmarks use, and passes on other requests. A ServeMux
// would redirect paths with the address of a worker.
func (s *Inspector) daskPaths(api bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if api && (path == "/api/v1" || strings.HasPrefix(path, "/api/v1/")) {
			s.daskAPI(w, r)
			return
		}
		to, page := daskPages[path]
		var serve func(http.ResponseWriter, *http.Request)
		switch {
		case page:
			serve = func(w http.ResponseWriter, _ *http.Request) { redirect(w, "./"+to) }
		case path == "/info":
			serve = func(w http.ResponseWriter, _ *http.Request) { redirect(w, "info/main/workers.html") }
		case strings.HasPrefix(path, "/info/") && strings.HasSuffix(path, ".html"):
			serve = s.daskInfo
		case path == "/sitemap.json":
			serve = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]any{"paths": sitemap(api)}) }
		case path == "/individual-plots.json":
			serve = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, individualPlots()) }
		case path == "/json/index.html":
			serve = jsonIndex
		default:
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	})
}

// redirect sends a browser to a relative URL, which is right behind a proxy that adds a prefix, too.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(b)
}

// sitemap returns all paths of Dask that are served.
func sitemap(api bool) []string {
	paths := append(slices.Collect(maps.Keys(daskPages)), daskFiles...)
	if api {
		paths = append(paths, slices.Collect(maps.Keys(apiCalls))...)
	}
	slices.Sort(paths)
	return paths
}

// individualPlots returns the names and paths of plots that JupyterLab's extension of Dask lists.
func individualPlots() map[string]string {
	out := map[string]string{}
	for path := range daskPages {
		if name, ok := strings.CutPrefix(path, "/individual-"); ok {
			words := strings.Split("individual-"+name, "-")
			for i, w := range words {
				words[i] = strings.ToUpper(w[:1]) + w[1:]
			}
			out[strings.Join(words, " ")] = path
		}
	}
	return out
}

func jsonIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Index of JSON routes</title>" +
		"</head>\n<body><h1>Index of JSON routes</h1><ul>\n")
	for _, path := range daskFiles {
		if name, ok := strings.CutPrefix(path, "/json/"); ok && strings.HasSuffix(name, ".json") {
			b.WriteString(`<li><a href="` + html.EscapeString(name) + `">` + html.EscapeString(name) + "</a></li>\n")
		}
	}
	b.WriteString("</ul></body></html>\n")
	_, _ = w.Write([]byte(b.String()))
}
