package scheduler

import (
	"fmt"
	"html"
	"net/http"
)

// pages are the paths of the HTTP server that a reader can open, with what they show.
var pages = []struct{ path, text string }{
	{"/health", "whether the scheduler works"},
	{"/metrics", "metrics for Prometheus"},
	{"/json/counts.json", "number of workers and of tasks by state"},
	{"/json/identity.json", "scheduler and workers"},
	{"/millstream/unrunnable", "tasks that no worker can run, and why"},
	{"/millstream/tasks", "tasks that ended last"},
	{"/millstream/transfers", "transfers between workers"},
	{"/millstream/events?topic=all", "events of a topic"},
}

// indexPage lists the pages.
func (s *Scheduler) indexPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!DOCTYPE html><title>Millstream scheduler</title><h1>Scheduler %s</h1><ul>\n", html.EscapeString(s.contact))
	for _, p := range pages {
		fmt.Fprintf(w, "<li><a href=%q>%s</a>: %s</li>\n", p.path[1:], html.EscapeString(p.path), html.EscapeString(p.text))
	}
	fmt.Fprintln(w, "</ul>")
}
