package scheduler

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

// A scheduler with a journal reports the latency of its commits, the garbage collector and the lengths of its queues.
func TestOwnMetrics(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{Dashboard: "127.0.0.1:0", Journal: t.TempDir()})
	s.metrics.committed(3_000_000) // in addition to those of the start
	_, text := scrape(t, s)
	for _, want := range []string{`millstream_scheduler_journal_commit_seconds_bucket{le="0.0064"} `,
		"millstream_scheduler_journal_commit_seconds_count ", "\nmillstream_scheduler_queue_length ",
		"\nmillstream_scheduler_outgoing_bytes ", "\nmillstream_scheduler_plugin_events_dropped_total 0",
		"\ngo_gc_heap_allocs_bytes_total ",
		"\ngo_gc_duration_seconds_count "} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics: no %q in %.3000s", want, text)
		}
	}
}
