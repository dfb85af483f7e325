package daskver

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Packages has the versions of packages by name, including "python": what a peer sends as versions["packages"]. The
// version of a package that is not installed is "None".
type Packages map[string]string

// schedulerPackages are the packages that matter on a scheduler as well.
var schedulerPackages = map[string]bool{
	"dask": true, "distributed": true, "msgpack": true, "cloudpickle": true, "tornado": true, "toolz": true,
	"lz4": true, "python": true,
}

// Bounds of a warning: names and versions are untrusted text of a peer.
const (
	maxRows = 50
	maxCell = 60
)

// Mismatch returns the warning of Dask about a peer whose packages differ from those of the workers and the scheduler,
// or "". who is the title of the column of the peer: "Client", or the ID of a worker.
//
// Members without Python have no packages to compare and are omitted: those whose Packages have no "python". Packages
// that a scheduler does not report are omitted as well.
func Mismatch(who string, source, scheduler Packages, workers []Packages) string {
	if source["python"] == "" {
		return ""
	}
	names := make(map[string]bool)
	for n := range source {
		names[n] = true
	}
	kinds := distinctPackages(workers)
	for _, w := range kinds {
		for n := range w {
			names[n] = true
		}
	}
	var rows [][]string
	for _, n := range slices.Sorted(maps.Keys(names)) {
		versions := map[string]bool{version(source, n): true}
		shown := "-"
		if _, ok := scheduler[n]; ok {
			if shown = version(scheduler, n); schedulerPackages[n] {
				versions[shown] = true
			}
		}
		theirs := make(map[string]bool)
		for _, w := range kinds {
			theirs[version(w, n)] = true
			versions[version(w, n)] = true
		}
		if len(versions) > 1 {
			rows = append(rows, []string{n, version(source, n), shown, formatSet(theirs)})
		}
	}
	if len(rows) == 0 {
		return ""
	}
	if len(rows) > maxRows {
		rows = rows[:maxRows]
	}
	return "Mismatched versions found\n\n" + table([]string{"Package", who, "Scheduler", "Workers"}, rows)
}

// distinctPackages omits duplicates and workers without Python.
func distinctPackages(workers []Packages) (out []Packages) {
	for _, w := range workers {
		if w["python"] != "" && !slices.ContainsFunc(out, func(o Packages) bool { return maps.Equal(o, w) }) {
			out = append(out, w)
		}
	}
	return out
}

func version(p Packages, name string) string {
	v, ok := p[name]
	switch {
	case !ok:
		return "MISSING"
	case v == "":
		return "None"
	}
	return v
}

// formatSet formats a set of versions as Python does.
func formatSet(set map[string]bool) string {
	list := slices.Sorted(maps.Keys(set))
	switch len(list) {
	case 0:
		return "None"
	case 1:
		return list[0]
	}
	return "{'" + strings.Join(list, "', '") + "'}"
}

// table formats a table as Dask does.
func table(columns []string, rows [][]string) string {
	widths := make([]int, len(columns))
	all := append([][]string{columns}, rows...)
	for _, row := range all {
		for i, cell := range row {
			row[i] = clip(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var bar, b strings.Builder
	for _, w := range widths {
		bar.WriteString("+" + strings.Repeat("-", w+2))
	}
	bar.WriteString("+\n")
	for i, row := range all {
		if i < 2 {
			b.WriteString(bar.String())
		}
		for j, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
	}
	b.WriteString(strings.TrimSuffix(bar.String(), "\n"))
	return b.String()
}

// clip shortens the text of a peer for a table.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxCell {
		s = string([]rune(s)[:maxCell-1]) + "…"
	}
	return s
}
