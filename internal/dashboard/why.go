package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.millstream.dev/internal/dashboard/spans"
)

// Finding is an answer to the question why a computation is slow, with its place in the task stream: a time in
// microseconds since the origin, and rows.
type Finding struct {
	Kind  string   `json:"kind"`
	Title string   `json:"title"`
	Text  string   `json:"text"`
	Start int64    `json:"start"`
	Stop  int64    `json:"stop"`
	Rows  []uint32 `json:"rows"`
}

// maxWhy bounds the spans that are examined: the latest.
const maxWhy = 100_000

// idleGap is the time without any span, in microseconds, that separates two computations.
const idleGap = 5_000_000

// why returns the findings about the last computation.
func (s *Server) why(ctx context.Context) (any, error) {
	findings := []Finding{}
	if r := s.lastRun(); r != nil {
		findings = append(findings, r.longestPath(ctx, s.source)...)
		findings = append(findings, r.prefixes()...)
		findings = append(findings, r.largestTransfer()...)
		findings = append(findings, r.balance()...)
		findings = append(findings, r.headroom()...)
	}
	return map[string]any{"findings": findings}, nil
}

// run is one computation: spans between two idle times.
type run struct {
	list        []spans.Span // by start
	rows        []spans.Row
	names       []string
	start, stop int64
}

// lastRun returns the last computation, nil if there is none. It examines the latest spans only.
func (s *Server) lastRun() *run {
	m := s.store.Meta()
	if m.Spans == 0 {
		return nil
	}
	// The latest spans: the window doubles until it has an idle time, or enough.
	var list []spans.Span
	for window := int64(60_000_000); ; window *= 4 {
		from := max(m.First, m.Last-window)
		list = s.store.Spans(from, m.Last+1, spans.AllRows, maxWhy)
		if from <= m.First || len(list) >= maxWhy || hasGap(list) {
			break
		}
	}
	if len(list) == 0 {
		return nil
	}
	first := 0
	end := list[0].Stop
	for i := range list {
		if list[i].Start-end > idleGap {
			first = i
		}
		end = max(end, list[i].Stop)
	}
	list = list[first:]
	return &run{list, s.store.Rows(), s.store.Names(), list[0].Start, end}
}

// hasGap reports whether there is an idle time.
func hasGap(list []spans.Span) bool {
	for i, end := 0, int64(0); i < len(list); i++ {
		if i > 0 && list[i].Start-end > idleGap {
			return true
		}
		end = max(end, list[i].Stop)
	}
	return false
}

// name returns the name of a category.
func (r *run) name(category uint8) string {
	if int(category) < len(r.names) {
		return r.names[category]
	}
	return "(others)"
}

// isTask reports whether a span is the run of a task.
func isTask(x *spans.Span) bool { return x.Category >= spans.FirstPrefix || x.Category == spans.Failed }

// seconds formats a time in microseconds.
func seconds(us int64) string {
	switch {
	case us == 0 || us >= 100_000:
		return fmt.Sprintf("%.3g s", float64(us)/1e6)
	case us >= 1000:
		return fmt.Sprintf("%.3g ms", float64(us)/1e3)
	}
	return fmt.Sprintf("%d µs", us)
}

// decimal formats a number with a decimal prefix of its unit.
func decimal(v float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for ; v >= 999.5 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.3g %s%s", v, prefixes[i], unit)
}

func percent(part, whole int64) string {
	if whole <= 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// maxLast bounds the tasks from which dependencies are followed.
const maxLast = 8

// longestPath follows dependencies from the task that ended last, or that of another prefix if it has none, as far as
// the scheduler still knows them.
func (r *run) longestPath(ctx context.Context, source Source) []Finding {
	byKey := map[string]int{}
	lastOf := map[uint8]int{} // the task of each category that ended last
	for i := range r.list {
		if x := &r.list[i]; isTask(x) && x.Key != "" {
			byKey[x.Key] = i
			if j, ok := lastOf[x.Category]; !ok || x.Stop > r.list[j].Stop {
				lastOf[x.Category] = i
			}
		}
	}
	if source == nil {
		return nil
	}
	candidates := slices.SortedFunc(maps.Values(lastOf), func(a, b int) int {
		return cmp.Or(cmp.Compare(r.list[b].Stop, r.list[a].Stop), cmp.Compare(a, b))
	})
	var path []string
	last := -1
	// Dependencies are forgotten together with tasks, and some tasks, such as those that failed last, have none.
	for _, last = range candidates[:min(len(candidates), maxLast)] {
		var err error
		path, err = source.Path(ctx, r.list[last].Key, func(key string) (int64, bool) {
			i, ok := byKey[key]
			if !ok {
				return 0, false
			}
			return r.list[i].Stop, true
		})
		if err != nil {
			return nil
		}
		if len(path) > 1 {
			break
		}
	}
	if len(path) < 2 {
		return nil
	}
	var busy int64
	rows := map[uint32]bool{}
	times := map[uint8]int64{}
	start := r.list[last].Start
	for _, key := range path {
		x := &r.list[byKey[key]]
		busy += x.Stop - x.Start
		times[x.Category] += x.Stop - x.Start
		start = min(start, x.Start)
		rows[x.Row] = true
	}
	whole := r.list[last].Stop - start
	var parts []string
	for _, c := range byTime(times) {
		parts = append(parts, fmt.Sprintf("%s %s", r.name(c), seconds(times[c])))
	}
	return []Finding{{Kind: "critical-path", Start: start, Stop: r.list[last].Stop, Rows: sortedRows(rows),
		Title: fmt.Sprintf("Critical path: %d tasks, %s", len(path), seconds(whole)),
		Text: fmt.Sprintf("%s, one of the tasks that ended last, depends on a chain of %d tasks. They computed for %s of %s "+
			"(%s): %s. The rest is transfers and waiting.", path[0], len(path), seconds(busy), seconds(whole),
			percent(busy, whole), strings.Join(parts[:min(len(parts), 5)], ", "))}}
}

// byTime returns categories by time, the longest first.
func byTime(times map[uint8]int64) []uint8 {
	list := make([]uint8, 0, len(times))
	for c := range times {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b uint8) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) })
	return list
}

func sortedRows(set map[uint32]bool) []uint32 {
	list := make([]uint32, 0, len(set))
	for row := range set {
		list = append(list, row)
	}
	slices.Sort(list)
	return list[:min(len(list), 100)]
}

// prefixes finds the prefix with the most time, and its longest task.
func (r *run) prefixes() []Finding {
	times, counts := map[uint8]int64{}, map[uint8]int64{}
	longest := map[uint8]int{}
	var all int64
	for i := range r.list {
		x := &r.list[i]
		if !isTask(x) {
			continue
		}
		took := x.Stop - x.Start
		all += took
		times[x.Category] += took
		counts[x.Category]++
		if j, ok := longest[x.Category]; !ok || took > r.list[j].Stop-r.list[j].Start {
			longest[x.Category] = i
		}
	}
	order := byTime(times)
	if len(order) == 0 {
		return nil
	}
	c := order[0]
	x := &r.list[longest[c]]
	return []Finding{{Kind: "prefix", Start: x.Start, Stop: x.Stop, Rows: []uint32{x.Row},
		Title: fmt.Sprintf("%s has %s of the computing time", r.name(c), percent(times[c], all)),
		Text: fmt.Sprintf("%d tasks took %s in all, %s on average. The longest, %s, took %s.", counts[c],
			seconds(times[c]), seconds(times[c]/counts[c]), x.Key, seconds(x.Stop-x.Start))}}
}

// largestTransfer finds the transfer that took the longest.
func (r *run) largestTransfer() []Finding {
	best := -1
	var all, count int64
	for i := range r.list {
		x := &r.list[i]
		if x.Category != spans.Transfer {
			continue
		}
		all += x.Stop - x.Start
		count++
		if best < 0 || x.Stop-x.Start > r.list[best].Stop-r.list[best].Start {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	x := &r.list[best]
	rate := ""
	if x.Bytes > 0 && x.Stop > x.Start {
		rate = ", " + decimal(float64(x.Bytes)/float64(x.Stop-x.Start)*1e6, "B/s")
	}
	return []Finding{{Kind: "transfer", Start: x.Start, Stop: x.Stop, Rows: []uint32{x.Row},
		Title: fmt.Sprintf("Longest transfer: %s over %s", seconds(x.Stop-x.Start), cmp.Or(x.Transport, "unknown")),
		Text: fmt.Sprintf("%s between %s and %s%s. All %d transfers together took %s.", decimal(float64(x.Bytes), "B"),
			r.label(x.Peer), r.label(r.worker(x.Row)), rate, count, seconds(all))}}
}

// label returns the name of the worker at an address, or the address if it has none.
func (r *run) label(address string) string {
	for i := range r.rows {
		if r.rows[i].Worker == address && r.rows[i].Name != "" {
			return r.rows[i].Name
		}
	}
	return address
}

// worker returns the address of the worker of a row.
func (r *run) worker(row uint32) string {
	if int(row) < len(r.rows) {
		return r.rows[row].Worker
	}
	return ""
}

// busyTimes returns the time of tasks by worker, and the rows of its threads.
func (r *run) busyTimes() (busy map[string]int64, rows map[string][]uint32) {
	busy, rows = map[string]int64{}, map[string][]uint32{}
	for _, row := range r.rows {
		if row.Kind == spans.ThreadRow {
			rows[row.Worker] = append(rows[row.Worker], row.ID)
		}
	}
	for i := range r.list {
		if x := &r.list[i]; isTask(x) {
			busy[r.worker(x.Row)] += x.Stop - x.Start
		}
	}
	return busy, rows
}

// unbalanced is the ratio of the time of the busiest worker to the mean from which it is a finding.
const unbalanced = 1.2

// balance finds the worker with the most time for each of its threads.
func (r *run) balance() []Finding {
	busy, rows := r.busyTimes()
	if len(busy) < 2 {
		return nil
	}
	workers := make([]string, 0, len(busy))
	var sum float64
	load := func(w string) float64 { return float64(busy[w]) / float64(max(len(rows[w]), 1)) }
	for w := range busy {
		workers = append(workers, w)
		sum += load(w)
	}
	slices.SortFunc(workers, func(a, b string) int { return cmp.Or(cmp.Compare(load(b), load(a)), cmp.Compare(a, b)) })
	most, least := workers[0], workers[len(workers)-1]
	mean := sum / float64(len(workers))
	if mean == 0 || load(most) < unbalanced*mean {
		return nil
	}
	return []Finding{{Kind: "balance", Start: r.start, Stop: r.stop, Rows: rows[most][:min(len(rows[most]), 100)],
		Title: fmt.Sprintf("Worker %s computed %.1f times as long as the mean", r.label(most), load(most)/mean),
		Text: fmt.Sprintf("Each of its threads computed for %s, those of %d workers for %s on average, those of %s "+
			"for %s.", seconds(int64(load(most))), len(workers), seconds(int64(mean)), r.label(least),
			seconds(int64(load(least))))}}
}

// headroom finds the time in which threads did nothing.
func (r *run) headroom() []Finding {
	used := map[uint32]bool{}
	var busy int64
	waited := map[uint8]int64{}
	for i := range r.list {
		x := &r.list[i]
		thread := isTask(x) || int(x.Row) < len(r.rows) && r.rows[x.Row].Kind == spans.ThreadRow
		switch {
		case !thread:
		case x.Category == spans.Waiting || x.Category == spans.Paused || x.Category == spans.WaitingSlot:
			waited[x.Category] += x.Stop - x.Start
		default:
			busy += x.Stop - x.Start
			used[x.Row] = true
		}
	}
	whole := (r.stop - r.start) * int64(len(used))
	if whole <= 0 || busy >= whole {
		return nil
	}
	idle := whole - busy
	reasons := ""
	for _, c := range byTime(waited) {
		reasons += fmt.Sprintf(" Waiting for %s took %s.", waits[c], seconds(waited[c]))
	}
	return []Finding{{Kind: "headroom", Start: r.start, Stop: r.stop, Rows: sortedRows(used),
		Title: fmt.Sprintf("Threads were idle for %s of the time", percent(idle, whole)),
		Text: fmt.Sprintf("%d threads could compute for %s in %s and did for %s: with perfect use of all threads the "+
			"run would take %s.%s", len(used), seconds(whole), seconds(r.stop-r.start), seconds(busy),
			seconds(busy/int64(max(len(used), 1))), reasons)}}
}

// waits are the objects of waiting.
var waits = map[uint8]string{spans.Waiting: "data", spans.Paused: "memory", spans.WaitingSlot: "a slot"}
