package gateway

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// targetDuration is the time in which the tasks of an adaptive cluster should be done, window the number of
	// decisions that must agree before workers are closed, and batchDelay the delay that collects several changes of
	// workers into one heartbeat. They are those of dask-gateway.
	targetDuration = 5 * time.Second
	window         = 3
	batchDelay     = 3 * time.Second
	// firstBeat is the delay of the first heartbeat, and of the second after a failure; it doubles from then on.
	firstBeat = 250 * time.Millisecond
	// idleBeat is the time between heartbeats if they are only sent after changes.
	idleBeat = time.Hour
)

// Host is the part of the scheduler that Service uses.
type Host struct {
	Log *slog.Logger
	// Context ends with the scheduler, which waits for what Go has started.
	Context context.Context
	Go      func(func())
	// Address is the address of the scheduler, ContactHost its host, and Dashboard the URL of its dashboard, or "".
	Address, ContactHost, Dashboard string
	// Workers returns the names of the workers by address, and a channel that is closed when they change.
	Workers func(context.Context) (map[string]string, <-chan struct{}, error)
	// Target returns the number of workers that the load needs, ToClose the names of those to close until count are
	// left, and Retire moves the results of workers to others and closes them. IdleSince returns the time since when
	// the scheduler is idle, zero if it is not.
	Target    func(context.Context, time.Duration) (int, error)
	ToClose   func(ctx context.Context, count int) ([]string, error)
	Retire    func(ctx context.Context, names []string) error
	IdleSince func(context.Context) (time.Time, error)
}

// Service connects a scheduler with the server of dask-gateway. One goroutine owns its state.
type Service struct {
	Host
	Options Options

	api    string // URL of the server of this process
	server *http.Server
	http   http.Client

	mu      sync.Mutex
	pending *request      // guarded by mu
	wake    chan struct{} // has capacity 1

	// The rest belongs to run.

	count          int               // of the workers that should run
	limits         request           // while it adapts
	recent         []int             // latest targets
	known          map[string]string // names by address
	closing        map[string]bool   // names of workers that are being retired
	closed         map[string]bool   // names of workers that have ended since the last heartbeat
	retired        chan retirement
	backoff        time.Duration
	beatAt         time.Time
	adaptAt, endAt time.Time
}

// request is what the server has requested: a number of workers, or limits to adapt between.
type request struct {
	count            *int // nil: as before
	adapt            bool
	minimum, maximum int
}

// retirement is the end of a retirement of workers.
type retirement struct {
	names []string
	err   error
}

// Start listens and sends heartbeats until the context of host ends.
func Start(ctx context.Context, host Host, o Options) (*Service, error) {
	s := &Service{
		Host: host, Options: o, wake: make(chan struct{}, 1), known: map[string]string{},
		closing: map[string]bool{}, closed: map[string]bool{}, retired: make(chan retirement, 1), backoff: firstBeat,
	}
	s.http.Transport = &http.Transport{DisableKeepAlives: true} // no proxy, as in dask-gateway
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	s.Go(s.run)
	return s, nil
}

// API returns the URL at which the server of dask-gateway reaches this process.
func (s *Service) API() string { return s.api }

// Close closes the API. It returns when no request is being served, or ctx ends.
func (s *Service) Close(ctx context.Context) {
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
}

// enqueue changes the pending request, for run.
func (s *Service) enqueue(change func(*request)) {
	s.mu.Lock()
	if s.pending == nil {
		s.pending = &request{}
	}
	change(s.pending)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Service) run() {
	ctx := s.Context
	s.beatAt = time.Now().Add(firstBeat)
	if s.Options.Heartbeat == 0 {
		s.beatAt = time.Now().Add(idleBeat)
	}
	if s.Options.Idle > 0 {
		s.endAt = time.Now().Add(s.Options.Idle / 4)
	}
	changed := s.update(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(s.next()))
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = s.update(ctx)
		case <-s.wake:
			s.apply()
		case r := <-s.retired:
			s.retirementEnded(r)
		case <-timer.C:
			s.due(ctx)
		}
	}
}

// next returns the time of the next action.
func (s *Service) next() time.Time {
	at := s.beatAt
	for _, t := range []time.Time{s.adaptAt, s.endAt} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// due performs the actions whose time has come.
func (s *Service) due(ctx context.Context) {
	now := time.Now()
	if !s.adaptAt.IsZero() && !now.Before(s.adaptAt) {
		s.adapt(ctx)
		s.adaptAt = time.Now().Add(s.Options.Adaptive)
	}
	if !s.endAt.IsZero() && !now.Before(s.endAt) {
		s.endIfIdle(ctx)
		s.endAt = time.Now().Add(s.Options.Idle / 4)
	}
	if !time.Now().Before(s.beatAt) {
		s.heartbeat(ctx)
	}
}

// update reads the workers and returns a channel that is closed at the next change.
func (s *Service) update(ctx context.Context) <-chan struct{} {
	names, changed, err := s.Workers(ctx)
	if err != nil { // the scheduler closes
		return nil
	}
	active := map[string]bool{}
	added, lost := false, false
	for address, name := range names {
		active[name] = true
		if _, ok := s.known[address]; !ok {
			added = true
			delete(s.closed, name)
		}
	}
	for address, name := range s.known {
		if _, ok := names[address]; ok || active[name] {
			continue
		}
		s.closed[name] = true
		if !s.closing[name] {
			lost = true
		}
	}
	s.known = names
	if added && len(names) > s.count || lost && s.Options.Heartbeat > 0 {
		s.beatBy(batchDelay)
	}
	return changed
}

// beatBy lets the next heartbeat come after at most d.
func (s *Service) beatBy(d time.Duration) {
	if at := time.Now().Add(d); at.Before(s.beatAt) {
		s.beatAt = at
	}
}

// apply performs what the server has requested.
func (s *Service) apply() {
	s.mu.Lock()
	w := s.pending
	s.pending = nil
	s.mu.Unlock()
	if w == nil {
		return
	}
	switch on := !s.adaptAt.IsZero(); {
	case w.adapt:
		s.Log.Info("adaptive scaling on", "minimum", w.minimum, "maximum", w.maximum)
		s.limits = *w
		if !on {
			s.adaptAt = time.Now()
		}
	case on:
		s.Log.Info("adaptive scaling off")
		s.adaptAt, s.recent = time.Time{}, nil
	}
	if w.count != nil {
		s.scale(*w.count)
	}
}

func (s *Service) scale(count int) {
	if count != s.count {
		s.Log.Info("scaling", "workers", count, "before", s.count)
		s.count = count
		s.beatBy(0)
	}
}

// adapt sets the number of workers from the load. It is lowered only if the latest targets agree.
func (s *Service) adapt(ctx context.Context) {
	target, err := s.Target(ctx, targetDuration)
	if err != nil {
		s.Log.Warn("adaptive scaling failed", "error", err)
		return
	}
	target = min(max(target, s.limits.minimum), s.limits.maximum)
	s.recent = append(s.recent, target)
	s.recent = s.recent[max(0, len(s.recent)-window):]
	if target > s.count {
		s.scale(target)
	} else if most := slices.Max(s.recent); most < s.count {
		s.scale(most)
	}
}

// endIfIdle asks the server to end the cluster if it was idle for too long.
func (s *Service) endIfIdle(ctx context.Context) {
	since, err := s.IdleSince(ctx)
	if err != nil || since.IsZero() || time.Since(since) <= s.Options.Idle {
		return
	}
	s.Log.Warn("idle cluster ends", "idle", time.Since(since).Round(time.Second), "limit", s.Options.Idle)
	if err := s.end(ctx); err != nil {
		s.Log.Warn("dask-gateway did not accept the end of the cluster", "error", err)
	}
}

// heartbeat reports the workers to the server, and retires those that are too many.
func (s *Service) heartbeat(ctx context.Context) {
	names := sorted(maps.Values(s.known))
	var retire []string
	if s.count < len(names) && len(s.closing) == 0 {
		list, err := s.ToClose(ctx, s.count)
		if err != nil {
			s.failed(err)
			return
		}
		retire = list
	}
	closing := append(sorted(maps.Keys(s.closing)), retire...)
	b := beat{
		Scheduler: s.Address, Dashboard: s.Dashboard, API: s.api, Count: s.count,
		Active:  slices.DeleteFunc(names, func(n string) bool { return slices.Contains(closing, n) }),
		Closing: closing, Closed: sorted(maps.Keys(s.closed)),
	}
	if err := s.send(ctx, &b); err != nil {
		s.failed(err)
		return
	}
	for _, name := range b.Closed {
		delete(s.closed, name)
	}
	s.backoff = firstBeat
	s.beatAt = time.Now().Add(s.interval())
	if len(retire) == 0 {
		return
	}
	for _, name := range retire {
		s.closing[name] = true
	}
	s.Go(func() { s.retired <- retirement{retire, s.Retire(ctx, retire)} })
}

// interval returns the time between two heartbeats.
func (s *Service) interval() time.Duration {
	if s.Options.Heartbeat == 0 {
		return idleBeat
	}
	return s.Options.Heartbeat
}

// failed logs a failed heartbeat; the next comes after a delay that doubles.
func (s *Service) failed(err error) {
	if s.Context.Err() != nil {
		return
	}
	s.Log.Warn("heartbeat to dask-gateway failed", "error", err)
	s.backoff = min(2*s.backoff, s.interval())
	s.beatAt = time.Now().Add(s.backoff)
}

// retirementEnded lets the workers be chosen again if they could not be retired.
func (s *Service) retirementEnded(r retirement) {
	for _, name := range r.names {
		delete(s.closing, name)
	}
	if r.err != nil && s.Context.Err() == nil {
		s.Log.Warn("workers could not be retired", "workers", r.names, "error", r.err)
	}
	s.beatBy(batchDelay)
}

// sorted returns names in order, and an empty list for none, which is [] in JSON.
func sorted(names iter.Seq[string]) []string {
	list := slices.AppendSeq([]string{}, names)
	slices.Sort(list)
	return list
}
