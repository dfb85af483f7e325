package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.millstream.dev/internal/dask/daskver"
)

// setting is a setting of the tests; package tests/dask/rig reads it from the environment.
type setting struct {
	protocol, release string
}

func (s setting) String() string {
	if s.release == "" {
		return s.protocol
	}
	return s.protocol + "-" + s.release
}

// firstScheduler is the oldest release whose clients and workers the Millstream scheduler supports.
const firstScheduler = "2025.7.0"

// settings returns all settings: every release of a list over tcp, and the installed one over the other protocols.
func settings(list string) []setting {
	var out []setting
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, setting{"tcp", line})
		}
	}
	return append(out, setting{"tls", ""}, setting{"ucxx", ""})
}

// skip returns the pattern of tests to skip in a setting: the short form of all releases, and the scheduler with
// releases that it does not support.
func (s setting) skip() string {
	skip := "^TestReleases$"
	if s.isOld() {
		skip += "|^TestScheduler"
	}
	return skip
}

func (s setting) isOld() bool {
	return s.release != "" && daskver.Compare(s.release, firstScheduler) < 0
}

// roles are the columns of the table: the prefixes of test names.
var roles = []string{"Scheduler", "Worker", "Client"}

// row has the results of one setting.
type row struct {
	setting
	passed, broken map[string]int // by role; "" for others
}

var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL): Test(\w+)`)

// row parses the output of the tests. A run without a result has failed.
func (s setting) row(text string) row {
	r := row{s, map[string]int{}, map[string]int{}}
	last := map[string]string{} // the last result of a test counts
	for _, m := range resultLine.FindAllStringSubmatch(text, -1) {
		last[m[2]] = m[1]
	}
	for test, end := range last {
		role := ""
		for _, name := range roles {
			if strings.HasPrefix(test, name) {
				role = name
			}
		}
		if end == "PASS" {
			r.passed[role]++
		} else {
			r.broken[role]++
		}
	}
	return r
}

func (r row) failed() bool {
	bad, good := 0, 0
	for _, n := range r.broken {
		bad += n
	}
	for _, n := range r.passed {
		good += n
	}
	return bad > 0 || good == 0
}

func (r row) summary() string {
	good, bad := 0, 0
	for _, n := range r.passed {
		good += n
	}
	for _, n := range r.broken {
		bad += n
	}
	return fmt.Sprintf("%d passed, %d failed", good, bad)
}

// cell returns the text for one role in one setting.
func (r row) cell(role string) string {
	switch good, bad := r.passed[role], r.broken[role]; {
	case role == "Scheduler" && r.isOld():
		return "not served"
	case good+bad == 0:
		return "none run"
	case bad > 0:
		return fmt.Sprintf("%d of %d failed", bad, good+bad)
	default:
		return fmt.Sprintf("%d passed", good)
	}
}

// tableOf returns the table in Markdown.
func tableOf(rows []row) string {
	var b strings.Builder
	b.WriteString("| release of Dask | protocol | our scheduler, Dask's clients and workers | our worker | our " +
		"client |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		release := r.release
		if release == "" {
			release = "that of the peers"
		}
		fmt.Fprintf(&b, "| %s | %s |", release, r.protocol)
		for _, role := range roles {
			fmt.Fprintf(&b, " %s |", r.cell(role))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Markers around the table in the document.
const begin, end = "<!-- table: make interop -->\n", "<!-- end of table -->"

// replace replaces the table between the markers of a document.
func replace(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the table: want lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(head+begin+table+end+tail), 0o666)
}
