package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// View is what the user has chosen to see.
type View struct {
	// Width and Height are those of the terminal. A Height of 0 shows all workers, a Width of 0 is 160.
	Width, Height int
	// Sort is the key of a column, see columns; Reverse reverses its order.
	Sort    rune
	Reverse bool
	// Offset is the number of workers that are scrolled away.
	Offset int
	// Keys shows the keys in the last line; Paused and Problem are shown there.
	Keys, Paused bool
	Problem      string
	Interval     time.Duration
}

// column is a column of the table of workers. Its key sorts by it.
type column struct {
	key     rune
	title   string
	width   int
	right   bool
	cell    func(*Worker) string
	compare func(a, b *Worker) int
}

func byNumber[T cmp.Ordered](of func(*Worker) T) func(a, b *Worker) int {
	return func(a, b *Worker) int { return cmp.Compare(of(b), of(a)) } // the largest first
}

var columns = []column{
	{'n', "WORKER", nameWidth, false, workerName,
		func(a, b *Worker) int {
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		}},
	{'s', "STATUS", 8, false, func(w *Worker) string { return w.Status },
		func(a, b *Worker) int { return cmp.Compare(a.Status, b.Status) }},
	{'h', "THR", 4, true, func(w *Worker) string { return fmt.Sprint(w.Threads) },
		byNumber(func(w *Worker) int64 { return w.Threads })},
	{'t', "RUN", 5, true, func(w *Worker) string { return fmt.Sprint(w.Running) },
		byNumber(func(w *Worker) int64 { return w.Running })},
	{'w', "READY", 6, true, func(w *Worker) string { return fmt.Sprint(w.Ready) },
		byNumber(func(w *Worker) int64 { return w.Ready })},
	{'e', "RESULTS", 8, true, func(w *Worker) string { return fmt.Sprint(w.Results) },
		byNumber(func(w *Worker) int64 { return w.Results })},
	{'c', "CPU%", 5, true, func(w *Worker) string { return fmt.Sprintf("%.0f", w.CPU) },
		byNumber(func(w *Worker) float64 { return w.CPU })},
	{'m', "MEMORY", 8, true, func(w *Worker) string { return size(float64(w.Memory.Used)) },
		byNumber(func(w *Worker) int64 { return w.Memory.Used })},
	{'l', "LIMIT", 8, true, func(w *Worker) string { return orNone(w.Memory.Limit) },
		byNumber(func(w *Worker) int64 { return w.Memory.Limit })},
	{'d', "DISK", 8, true, func(w *Worker) string { return size(float64(w.Memory.Spilled)) },
		byNumber(func(w *Worker) int64 { return w.Memory.Spilled })},
	{'g', "GPU%", 5, true, func(w *Worker) string {
		if w.GPU == nil || w.GPU.Utilization < 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", w.GPU.Utilization)
	}, byNumber(func(w *Worker) float64 {
		if w.GPU == nil {
			return -2
		}
		return w.GPU.Utilization
	})},
	{'u', "GPU MEM", 8, true, func(w *Worker) string {
		if w.GPU == nil {
			return "-"
		}
		return size(float64(w.GPU.Used))
	}, byNumber(func(w *Worker) int64 {
		if w.GPU == nil {
			return -1
		}
		return w.GPU.Used
	})},
	{'b', "NET/s", 8, true, func(w *Worker) string { return size(w.Network) },
		byNumber(func(w *Worker) float64 { return w.Network })},
	{'a', "ADDRESS", 30, false, func(w *Worker) string { return w.Address },
		func(a, b *Worker) int { return cmp.Compare(a.Address, b.Address) }},
}

// nameWidth is the width of the column of names.
const nameWidth = 14

// workerName returns the name of a worker. Workers without one have their address as name, of which the end differs.
func workerName(w *Worker) string {
	if w.Name != "" && w.Name != w.Address {
		return w.Name
	}
	_, name, found := strings.Cut(w.Address, "://")
	if !found {
		name = w.Address
	}
	if r := []rune(name); len(r) > nameWidth {
		name = "~" + string(r[len(r)-nameWidth+1:])
	}
	return name
}

// Sorts reports whether a key sorts the workers.
func Sorts(key rune) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.key == key })
}

// Lines returns the lines of the view, each at most as wide as the terminal and without control characters, whatever
// names peers have chosen.
func (s *Snapshot) Lines(v View) []string {
	if v.Width <= 0 {
		v.Width = 160
	}
	lines := s.header(v)
	workers := s.sorted(v)
	room := len(workers)
	if v.Height > 0 {
		footer := 0
		if v.Keys {
			footer = 1
		}
		room = max(0, v.Height-len(lines)-2-footer)
	}
	shown := workers[min(max(v.Offset, 0), max(0, len(workers)-room)):]
	shown = shown[:min(room, len(shown))]
	if len(workers) > 0 {
		cols := fitting(v, workers)
		lines = append(lines, "", row(v, cols, nil))
		for i := range shown {
			lines = append(lines, row(v, cols, &shown[i]))
		}
	}
	if v.Height > 0 {
		last := 0
		if v.Keys {
			last = 1
		}
		lines = lines[:min(len(lines), max(0, v.Height-last))]
	}
	if v.Keys {
		lines = append(lines, footer(v, len(workers), len(shown)))
	}
	for i := range lines {
		lines[i] = strings.TrimRight(cut(lines[i], v.Width), " ")
	}
	return lines
}

// header returns the lines above the table.
func (s *Snapshot) header(v View) []string {
	line := func(name, format string, args ...any) string {
		return fmt.Sprintf("%-10s ", name) + fmt.Sprintf(format, args...)
	}
	up := s.Time.Sub(s.Started).Round(time.Second)
	out := []string{line("scheduler", "%s, up %v, %s", s.Address, up, s.Time.Format("15:04:05"))}
	status := map[string]int{}
	gpus, busy, known := 0, 0.0, 0
	var used, total int64
	for i := range s.Workers {
		w := &s.Workers[i]
		status[cmp.Or(w.Status, "unknown")]++
		if g := w.GPU; g != nil {
			gpus, used, total = gpus+1, used+g.Used, total+g.Total
			if g.Utilization >= 0 {
				busy, known = busy+g.Utilization, known+1
			}
		}
	}
	out = append(out, line("workers", "%d with %d threads%s", len(s.Workers), s.Threads, list(": ", status)))
	rate := ""
	if s.Transitions > 0 {
		rate = fmt.Sprintf("; %.0f transitions/s", s.Transitions)
	}
	out = append(out, line("tasks", "%s%s", cmp.Or(list("", s.Tasks), "none"), rate))
	out = append(out, line("memory", "%s %s of %s; results %s, on disk %s", bar(s.Memory.Used, s.Memory.Limit),
		size(float64(s.Memory.Used)), orNone(s.Memory.Limit), size(float64(s.Memory.Managed)),
		size(float64(s.Memory.Spilled))))
	if gpus > 0 {
		text := "utilization unknown"
		if known > 0 {
			text = fmt.Sprintf("%.0f%% busy", busy/float64(known))
		}
		out = append(out, line("GPUs", "%s %s of %s; %d, %s", bar(used, total), size(float64(used)),
			size(float64(total)), gpus, text))
	}
	if len(s.Transfers) > 0 {
		var parts []string
		for _, t := range s.Transfers {
			parts = append(parts, fmt.Sprintf("%s %s/s (%s in %d)", t.Transport, size(t.Rate), size(float64(t.Bytes)),
				t.Count))
		}
		out = append(out, line("transfers", "%s", strings.Join(parts, ", ")))
	}
	failures := fmt.Sprintf("%d tasks erred", s.Failures.Erred)
	if s.Failures.WorkersRemoved >= 0 {
		failures += fmt.Sprintf(", %d tasks lost their worker, %d workers left", s.Failures.Suspicious,
			s.Failures.WorkersRemoved)
	}
	out = append(out, line("failures", "%s", failures))
	for i := range out {
		out[i] = clean(out[i])
	}
	return out
}

// sorted returns the workers in the order of the view.
func (s *Snapshot) sorted(v View) []Worker {
	list := slices.Clone(s.Workers)
	i := max(0, slices.IndexFunc(columns, func(c column) bool { return c.key == v.Sort }))
	slices.SortStableFunc(list, func(a, b Worker) int {
		order := columns[i].compare(&a, &b)
		if v.Reverse {
			order = -order
		}
		return cmp.Or(order, columns[0].compare(&a, &b), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// fitting returns the columns that fit into the terminal, those of GPUs only if there is one. The first is always
// shown.
func fitting(v View, workers []Worker) (list []column) {
	gpus := slices.ContainsFunc(workers, func(w Worker) bool { return w.GPU != nil })
	width := 0
	for i, c := range columns {
		if !gpus && (c.key == 'g' || c.key == 'u') {
			continue
		}
		if width += c.width + 1; i > 0 && width-1 > v.Width {
			break
		}
		list = append(list, c)
	}
	return list
}

// row returns a row of the table, the titles for nil. The column of the order is marked.
func row(v View, columns []column, w *Worker) string {
	var b strings.Builder
	for _, c := range columns {
		text := c.title
		if w != nil {
			text = clean(c.cell(w))
		} else if c.key == v.Sort {
			text = "*" + text
		}
		text = cut(text, c.width)
		if c.right {
			fmt.Fprintf(&b, "%*s ", c.width, text)
		} else {
			fmt.Fprintf(&b, "%-*s ", c.width, text)
		}
	}
	return b.String()
}

func footer(v View, workers, shown int) string {
	switch {
	case v.Problem != "":
		return clean("no reply: " + v.Problem)
	case v.Paused:
		return "paused; p continues, q quits"
	}
	text := "q quit  p pause  sort: n name s status t run c cpu m memory d disk g GPU b net  r reverse  +/- " +
		v.Interval.String()
	if shown < workers {
		text = fmt.Sprintf("%d of %d  j/k scroll  ", shown, workers) + text
	}
	return text
}

// list returns "3 processing, 1 queued", the states sorted, after a prefix; "" if all are zero.
func list[N int | int64](prefix string, counts map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return prefix + strings.Join(parts, ", ")
}

// bar draws a share with ASCII.
func bar(used, of int64) string {
	const width = 20
	n := 0
	if of > 0 {
		n = int(min(width, max(0, float64(used)/float64(of)*width)))
	}
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// size returns bytes with three digits, such as 1.5G; units are powers of 1024.
func size(n float64) string {
	units := "BKMGTPE"
	u := 0
	for n >= 1000 && u < len(units)-1 {
		n, u = n/1024, u+1
	}
	switch {
	case u == 0:
		return fmt.Sprintf("%.0f", n)
	case n < 10:
		return fmt.Sprintf("%.2f%c", n, units[u])
	case n < 100:
		return fmt.Sprintf("%.1f%c", n, units[u])
	}
	return fmt.Sprintf("%.0f%c", n, units[u])
}

func orNone(n int64) string {
	if n <= 0 {
		return "none"
	}
	return size(float64(n))
}

// clean replaces what would change the terminal, or would be of another width than one.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r >= 0x1100 || unicode.Is(unicode.Mn, r) {
			return '?'
		}
		return r
	}, s)
}

// cut shortens text to a width.
func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width <= 1 {
		return string(r[:max(0, width)])
	}
	return string(r[:width-1]) + "~"
}
