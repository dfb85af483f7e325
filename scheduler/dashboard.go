package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/feed"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// openHistory opens the history of the dashboard, and records from now on.
func (s *Scheduler) openHistory(ctx context.Context) error {
	dir := s.cfg.DashboardHistory
	if dir == "" && s.cfg.Journal != "" {
		folder, err := journal.Folder(s.cfg.Journal, true)
		if err != nil {
			return err
		}
		dir = filepath.Join(folder, journal.HistoryFolder)
	}
	cfg := spans.Config{Dir: dir, Limit: s.cfg.DashboardHistorySize}
	store, err := spans.Open(cfg)
	if errors.Is(err, spans.ErrDamaged) { // no reason not to start
		aside := fmt.Sprintf("%s.damaged-%d", filepath.Clean(dir), time.Now().Unix())
		s.log.Warn("dashboard history unreadable; starting another", "error", err, "moved", aside)
		if err = os.Rename(dir, aside); err == nil {
			store, err = spans.Open(cfg)
		}
	}
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

// sync waits until everything that has happened is in the history.
func (s *Scheduler) sync(ctx context.Context) error {
	if s.spans == nil {
		return &rpc.Exception{Type: "NotImplementedError", Message: "the scheduler has no dashboard and keeps no " +
			"history; start it with --dashboard, or set Config.Dashboard"}
	}
	if err := s.loop.Do(ctx, s.feed.Flush); err != nil {
		return err
	}
	return s.spans.Sync(ctx)
}

// performanceReportRPC serves performance_report of Dask clients: a report of the tasks since start, as HTML.
func (s *Scheduler) performanceReportRPC(ctx context.Context, _ *rpc.Request, in struct {
	Start any `rpc:"start,optional"`
	Count any `rpc:"last_count,optional"`
	Code  any `rpc:"code,optional"`
	Mode  any `rpc:"mode,optional"`
}) (string, error) {
	b, err := s.report(ctx, in.Start)
	return string(b), err
}

// reportRPC serves millstream-report: the same as bytes, or with format "trace" the history as a Chrome trace.
func (s *Scheduler) reportRPC(ctx context.Context, _ *rpc.Request, in struct {
	Start  any    `rpc:"start,optional"`
	Format string `rpc:"format,optional"`
}) ([]byte, error) {
	switch in.Format {
	case "", "html":
		return s.report(ctx, in.Start)
	case "trace":
		if err := s.sync(ctx); err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err := s.inspect.WriteTrace(&b)
		return b.Bytes(), err
	}
	return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("format %.20q: want html or trace", in.Format)}
}

// report returns a report since a time in seconds since 1970.
func (s *Scheduler) report(ctx context.Context, since any) ([]byte, error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	var o dashboard.ReportOptions
	if start, ok := val.Number(since); ok && start > 0 && start < maxSeconds {
		o.From = int64(start * 1e6)
	}
	o.Title = "Report of " + s.Address()
	var b bytes.Buffer
	err := s.inspect.WriteReport(ctx, &b, o)
	return b.Bytes(), err
}

// maxSeconds bounds times of clients in seconds since 1970.
const maxSeconds = 1e12
