package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/primitives"
)

// sample is a snapshot of the values of the metrics.
type sample struct {
	clients   int
	desired   int
	tasks     map[string]int
	forgotten int
	groups    int
	bytes     int64
	workers   map[string]int
	prefixes  []prefixSample
	schemes   map[string]history.SchemeTotal
	sems      map[string]primitives.SemaphoreStats
	totals    Totals
	counters  state.Counters
	journal   journalSample
	short     map[string]int // tasks that no running worker can run, by reason
}

type prefixSample struct {
	name       string
	suspicious int64
	compute    float64
	bytes      int64
}

// MaxPrefixSeries is the number of prefixes with series of their own. Clients choose keys, and so prefixes.
const MaxPrefixSeries = 1000

// mostUsed returns the prefixes with the most computing time, and all others as one.
func mostUsed(list []prefixSample) []prefixSample {
	if len(list) <= MaxPrefixSeries {
		return list
	}
	slices.SortFunc(list, func(a, b prefixSample) int {
		return cmp.Or(cmp.Compare(b.compute, a.compute), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	others := prefixSample{name: "(others)"}
	for _, p := range list[MaxPrefixSeries:] {
		others.suspicious += p.suspicious
		others.compute += p.compute
		others.bytes += p.bytes
	}
	return append(list[:MaxPrefixSeries:MaxPrefixSeries], others)
}

type journalSample struct {
	there          bool
	records, syncs uint64
	bytes          int64
}

// sample returns a sample. It runs in the loop.
func (s *Inspector) sample() sample {
	m := sample{tasks: map[string]int{}, workers: map[string]int{}, totals: *s.Totals, counters: s.State.Counters()}
	for _, c := range s.Clients.ByName {
		if !c.Part {
			m.clients++
		}
	}
	m.desired = s.State.AdaptiveTarget(0)
	for _, st := range state.TaskStates() {
		m.tasks[st.String()] = s.State.Count(st)
	}
	m.forgotten = s.State.Count(state.Forgotten)
	for _, name := range []string{"idle", "partially_saturated", "saturated", "paused", "retiring"} {
		m.workers[name] = 0
	}
	for w := range s.State.Workers() {
		m.bytes += w.NBytes()
		switch {
		case w.Status() == state.StatusPaused:
			m.workers["paused"]++
		case w.Status() != state.StatusRunning:
			m.workers["retiring"]++
		case s.State.Unoccupied(w):
			m.workers["idle"]++
		case s.State.Saturated(w):
			m.workers["saturated"]++
		default:
			m.workers["partially_saturated"]++
		}
	}
	m.short = map[string]int{}
	for _, r := range state.Reasons() {
		m.short[r.String()] = 0
	}
	for _, sh := range s.State.Shortages(false) {
		m.short[sh.Reason.String()] += sh.Tasks
	}
	bytes := map[string]int64{}
	for g := range s.State.Groups() {
		m.groups++
		bytes[g.Prefix().Name()] += g.NBytes()
	}
	for p := range s.State.Prefixes() {
		_, total := p.Finished()
		m.prefixes = append(m.prefixes, prefixSample{p.Name(), p.Suspicious(), total.Seconds(), bytes[p.Name()]})
	}
	m.prefixes = mostUsed(m.prefixes)
	m.schemes = s.Transfers.Totals()
	m.sems = s.Primitives.Semaphores(MaxPrefixSeries)
	if j := s.Journal.Journal(); j != nil {
		st := j.Stats()
		m.journal = journalSample{true, st.Records, st.Syncs, st.LogBytes}
	}
	return m
}

// collector collects the metrics of Dask from a sample at each scrape.
type collector struct {
	s   *Inspector
	ctx context.Context
}

// Descriptions of the metrics; names and texts are those of Dask where it has them.
var (
	descClients    = desc("clients", "Number of clients connected")
	descAddedC     = desc("client_connections_added_total", "Total number of client connections added")
	descRemovedC   = desc("client_connections_removed_total", "Total number of client connections removed")
	descDesired    = desc("desired_workers", "Number of workers scheduler needs for task graph")
	descWorkers    = desc("workers", "Number of workers known by scheduler", "state")
	descAddedW     = desc("workers_added_total", "Total number of workers added")
	descRemovedW   = desc("workers_removed_total", "Total number of workers removed")
	descTasks      = desc("tasks", "Number of tasks known by scheduler", "state")
	descSuspicious = desc("tasks_suspicious_total", "Total number of times a task has been marked suspicious",
		"task_prefix_name")
	descForgotten = desc("tasks_forgotten_total",
		"Total number of processed tasks no longer in memory and already removed from the scheduler job queue")
	descGroups  = desc("task_groups", "Number of task groups known by scheduler")
	descCompute = desc("tasks_compute_seconds_total", "Total amount of compute time spent in each prefix",
		"task_prefix_name")
	descOutput = desc("tasks_output_bytes",
		"Current number of bytes in memory (without duplicates) for each prefix", "task_prefix_name")
	descTicks = desc("tick_count_total", "Total number of ticks observed since the server started")
	descSteal = prometheus.NewDesc("dask_stealing_request_count_total", "Total number of stealing requests", nil,
		nil)
	descSemMax = prometheus.NewDesc("dask_semaphore_max_leases",
		"Maximum leases allowed per semaphore, this will be constant for each semaphore during its lifetime.",
		[]string{"name"}, nil)
	descSemPending = prometheus.NewDesc("dask_semaphore_pending_leases",
		"Total number of currently pending leases per semaphore", []string{"name"}, nil)
	descSemAcq = prometheus.NewDesc("dask_semaphore_acquire_total",
		"Total number of leases acquired per semaphore", []string{"name"}, nil)
	descSemRel = prometheus.NewDesc("dask_semaphore_release_total",
		"Total number of leases released per semaphore", []string{"name"}, nil)

	descShort = own("tasks_unrunnable", "Number of ready tasks that no running worker can run, by reason",
		"reason")
	descTransitions = own("transitions_total", "Total number of transitions of tasks")
	descTransBytes  = own("transfer_bytes_total", "Total bytes moved between workers, by scheme", "scheme")
	descTransCount  = own("transfers_total", "Total number of transfers between workers, by scheme", "scheme")
	descTransTime   = own("transfer_seconds_total", "Total time of transfers between workers, by scheme", "scheme")
	descJRecords    = own("journal_records_total", "Total number of records appended to the journal")
	descJSyncs      = own("journal_syncs_total", "Total number of group commits of the journal")
	descJBytes      = own("journal_bytes", "Size of the journal's segments")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dask_scheduler_"+name, help, labels, nil)
}

func own(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("millstream_scheduler_"+name, help, labels, nil)
}

// Describe sends nothing: the metrics depend on the tasks and cannot be checked in advance.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// metricLabel returns a name that a peer chose as the value of a label: valid text of bounded length.
func metricLabel(name string) string {
	const most = 200
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// Collect takes a sample in the loop and sends it.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	m, err := loop.Ask(c.ctx, c.s.Loop, func() (sample, error) { return c.s.sample(), nil })
	if err != nil {
		return
	}
	// Names come from peers: two may be equal after conversion to valid text, and a scrape must not fail because of
	// that.
	seen := map[string]bool{}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels []string) {
		for i, l := range labels {
			labels[i] = metricLabel(l)
		}
		id := fmt.Sprintf("%p %q", d, labels)
		if seen[id] {
			return
		}
		seen[id] = true
		if metric, err := prometheus.NewConstMetric(d, kind, v, labels...); err == nil {
			ch <- metric
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) { send(d, prometheus.GaugeValue, v, labels) }
	count := func(d *prometheus.Desc, v float64, labels ...string) { send(d, prometheus.CounterValue, v, labels) }
	gauge(descClients, float64(m.clients))
	count(descAddedC, float64(m.totals.ClientsAdded))
	count(descRemovedC, float64(m.totals.ClientsRemoved))
	gauge(descDesired, float64(m.desired))
	for name, n := range m.workers {
		gauge(descWorkers, float64(n), name)
	}
	count(descAddedW, float64(m.totals.WorkersAdded))
	count(descRemovedW, float64(m.totals.WorkersRemoved))
	for name, n := range m.tasks {
		gauge(descTasks, float64(n), name)
	}
	for reason, n := range m.short {
		gauge(descShort, float64(n), reason)
	}
	count(descForgotten, float64(m.forgotten))
	gauge(descGroups, float64(m.groups))
	for _, p := range m.prefixes {
		count(descSuspicious, float64(p.suspicious), p.name)
		count(descCompute, p.compute, p.name)
		gauge(descOutput, float64(p.bytes), p.name)
	}
	count(descTicks, float64(m.totals.Ticks))
	count(descSteal, float64(m.counters.Steals))
	count(descTransitions, float64(m.counters.Transitions))
	for name, x := range m.sems {
		gauge(descSemMax, float64(x.Max), name)
		gauge(descSemPending, float64(x.Pending), name)
		count(descSemAcq, float64(x.Acquired), name)
		count(descSemRel, float64(x.Released), name)
	}
	for scheme, t := range m.schemes {
		count(descTransBytes, float64(t.Bytes), scheme)
		count(descTransCount, float64(t.Transfers), scheme)
		count(descTransTime, t.Seconds, scheme)
	}
	if m.journal.there {
		count(descJRecords, float64(m.journal.records))
		count(descJSyncs, float64(m.journal.syncs))
		gauge(descJBytes, float64(m.journal.bytes))
	}
}

// metricsHandler serves /metrics. Each scheduler has its own registry, because a process may run several.
func (s *Inspector) metricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(&collector{s, r.Context()},
			collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		for _, c := range s.Collectors {
			if err := reg.Register(c); err != nil {
				http.Error(w, fmt.Sprintf("scheduler: Config.Collectors: %v", err), http.StatusInternalServerError)
				return
			}
		}
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}
