package scheduler

import (
	"context"
	"fmt"
	"path/filepath"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/scheduler/internal/feed"
	"go.millstream.dev/scheduler/internal/peers"
)

// historyFolder is the folder of the dashboard's history in that of the journal.
const historyFolder = "dashboard"

// openHistory opens the history of the dashboard, and records from now on.
func (s *Scheduler) openHistory(ctx context.Context) error {
	dir := s.cfg.DashboardHistory
	if dir == "" && s.cfg.Journal != "" {
		dir = filepath.Join(s.cfg.Journal, historyFolder)
	}
	store, err := spans.Open(spans.Config{Dir: dir, Limit: s.cfg.DashboardHistorySize})
	if err != nil {
		return fmt.Errorf("scheduler: history of the dashboard: %w", err)
	}
	s.spans = store
	return s.loop.Do(ctx, func() {
		s.feed = feed.New(store, func(address string) *peers.Worker { return s.workers.ByAddress[address] })
		s.inspect.Record(store, s.feed)
		s.feed.Begin(s.loop.Now())
		if n := store.Meta().Spans; n > 0 {
			s.feed.Failure(dashboard.Failure{Kind: "restart", Cause: "the scheduler has started again",
				Text: fmt.Sprintf("%d tasks in the journal", s.state.NumTasks())})
		}
	})
}
