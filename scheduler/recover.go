package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// recovery is the time after a restart from the journal, in which workers come back with
// the results that they hold. The loop owns it.
type recovery struct {
	replaying  bool
	holding    bool
	missing    map[string]bool // addresses of workers that were there before
	until      time.Time
	compacting bool
}

// recover reads the journal into a new state. It runs in the loop.
func (s *Scheduler) recover() error {
	s.state = state.New(s.stateConfig(0))
	s.recovery = recovery{replaying: true, missing: map[string]bool{}}
	s.apply(&state.Hold{On: true})
	dir, err := journal.Folder(s.cfg.Journal, true)
	if err != nil {
		return fmt.Errorf("scheduler: journal in %s: %w", s.cfg.Journal, err)
	}
	if dir != s.cfg.Journal {
		s.log.Info("journal is in a folder of its own: the given one is a volume or may be written by others", "journal", dir)
	}
	j, err := journal.Open(dir, journal.Options{MaxRecord: s.cfg.maxRecord, OnCommit: func(_ journal.Ticket, err error) {
		if err != nil {
			s.journalFailed(err)
		}
	}, OnHold: func(err error) {
		s.log.Warn("journal waits for a file descriptor; raise the limit (ulimit -n), or close connections", "error", err)
	}}, joinRecords(s.replaySafe))
	if err != nil {
		return fmt.Errorf("scheduler: journal in %s: %w; `millstream journal check %[1]s` lists what cannot be read, `millstream journal repair %[1]s` leaves it out",
			dir, err)
	}
	if n := j.Stats().TornBytes; n > 0 {
		s.log.Warn("journal ended within a record; the end was cut off", "bytes", n, "journal", dir)
	}
	s.journal = j
	s.state.SetEpoch(j.Epoch())
	s.recovery.replaying = false
	s.recovery.holding = true
	s.recovery.until = s.now.Add(s.cfg.Reattach)
	for _, c := range s.clients {
		if !c.part {
			c.awayFrom = s.now
		}
	}
	if s.state.NumTasks() > 0 || len(s.clients) > 0 {
		s.log.Info("read the journal", "tasks", s.state.NumTasks(), "clients", len(s.clients), "workers", len(s.recovery.missing), "epoch", j.Epoch())
	}
	s.recovery.tick(s)
	return nil
}

// replaySafe is replay whose panics are errors: a record that cannot be replayed can be left out.
func (s *Scheduler) replaySafe(r journal.Record) (err error) {
	s.applying = false
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: kind %d: replay panicked: %v", errRecord, r.Kind, v)
		}
	}()
	return s.replay(r)
}

// replay does again what one record tells.
func (s *Scheduler) replay(r journal.Record) error {
	switch r.Kind {
	case recordGraph:
		return s.replayGraph(r.Data)
	case recordOp:
		op, args, err := readOpRecord(r.Data)
		if err != nil {
			return err
		}
		return s.replayChange(op, args)
	}
	name, keys, err := readNameRecord(r.Data)
	if err != nil {
		return err
	}
	switch r.Kind {
	case recordClient:
		s.clientNamed(name)
	case recordClientGone:
		if c := s.clients[name]; c != nil {
			s.removeClient(c)
		}
	case recordDesire:
		s.desire(name, keys...)
	case recordRelease:
		s.release(name, keys...)
	case recordData:
		s.apply(&state.ExpectData{Client: s.clientNamed(name).id, Keys: keys})
	case recordWorker:
		s.recovery.missing[name] = true
	case recordWorkerGone:
		delete(s.recovery.missing, name)
	default:
		return fmt.Errorf("%w: kind %d: it was written by a newer release", errRecord, r.Kind)
	}
	return nil
}

func (s *Scheduler) replayGraph(data []byte) error {
	client, raw, expr, err := readGraphRecord(data)
	if err != nil {
		return err
	}
	ops := wire.ReadOps(raw)
	if !ops.Next() {
		return errRecord
	}
	var u wire.UpdateGraph
	g, err := readUpdate(&ops, &u)
	if err != nil {
		return err
	}
	if g.err == nil {
		g.err = g.read(expr)
	}
	if g.err != nil {
		return g.err // it was fine when it was written
	}
	c := s.clientNamed(client)
	s.relax(&g.graph)
	g.ev.Client, g.ev.Graph = c.id, &g.graph
	s.apply(&g.ev)
	g.done()
	return nil
}

// back notes that a worker is there again.
func (r *recovery) back(s *Scheduler, address string) {
	if r.holding {
		delete(r.missing, address)
		if len(r.missing) == 0 {
			// The last one is still about to say what it holds.
			r.until = min2(r.until, s.now.Add(200*time.Millisecond))
		}
	}
}

func min2(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tick ends the wait when its time is over.
func (r *recovery) tick(s *Scheduler) {
	if !r.holding || len(r.missing) > 0 && s.now.Before(r.until) || len(s.workers) > 0 && s.now.Before(r.until) {
		return
	}
	r.holding = false
	if len(r.missing) > 0 {
		s.log.Warn("workers have not come back; what only they held is computed again", "workers", len(r.missing))
	}
	for address := range r.missing {
		s.recordWorker(address, false)
	}
	r.missing = nil
	s.apply(&state.Hold{On: false})
}

// maybeCompact replaces what the journal has grown to by what still matters. The loop says
// what that is; another goroutine writes it.
func (s *Scheduler) maybeCompact() {
	if s.journal == nil || s.recovery.compacting || !s.journal.WantsCompaction() {
		return
	}
	snap, err := s.journal.Compact()
	if err != nil {
		s.log.Warn("the journal cannot be compacted", "error", err)
		return
	}
	s.recovery.compacting = true
	k, err := s.keep()
	if err != nil {
		snap.Abort()
		s.recovery.compacting = false
		s.log.Error("journal not compacted", "error", err)
		return
	}
	go func() {
		err := k.write(s.ctx, snap)
		if err != nil {
			snap.Abort()
			s.log.Warn("the journal was not compacted", "error", err)
		}
		_ = s.do(context.WithoutCancel(s.ctx), func() { s.recovery.compacting = false })
	}()
}

// kept is what of a journal still matters, as the loop knows it at one moment.
type kept struct {
	live    map[task.Key]bool
	data    map[task.Key]bool            // of live, those from outside
	wants   map[string]map[task.Key]bool // by client
	workers []string
	changes [][][]byte // of primitives
}

// keep runs in the loop.
func (s *Scheduler) keep() (*kept, error) {
	k := &kept{live: make(map[task.Key]bool, s.state.NumTasks()), data: map[task.Key]bool{}, wants: map[string]map[task.Key]bool{}}
	for t := range s.state.Tasks() {
		k.live[t.Key()] = true
		if len(t.Spec()) == 0 {
			k.data[t.Key()] = true
		}
	}
	for name, c := range s.clients {
		sc := s.state.Client(c.id)
		if sc == nil {
			continue
		}
		keys := make(map[task.Key]bool, sc.NumWanted())
		for i := range sc.NumWanted() {
			keys[sc.Wanted(i).Key()] = true
		}
		k.wants[name] = keys
	}
	for address := range s.workers {
		k.workers = append(k.workers, address)
	}
	var failed error
	s.eachChange(func(op string, args msgpack.Map) {
		parts, err := opParts(op, args)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", op, err))
			return
		}
		k.changes = append(k.changes, parts)
	})
	return k, failed
}

// write writes a snapshot: the graphs that have a task that is still known, and then who
// wants what.
func (k *kept) write(ctx context.Context, snap *journal.Snapshot) error {
	add := func(kind journal.Kind, parts ...[]byte) error {
		return splitRecord(snap.MaxRecord(), kind, parts, snap.Append)
	}
	name := func(kind journal.Kind, name string, keys []task.Key) error {
		return add(kind, appendNameRecord(nil, name, keys))
	}
	for client := range k.wants {
		if err := name(recordClient, client, nil); err != nil {
			return err
		}
	}
	strangers := map[string]bool{} // clients that have left, whose graphs still matter to others
	if err := k.writeData(name, strangers); err != nil {
		return err
	}
	err := snap.Prefix(ctx, joinRecords(func(r journal.Record) error {
		if r.Kind != recordGraph {
			return nil
		}
		client, _, expr, err := readGraphRecord(r.Data)
		if err != nil {
			return err
		}
		alive, err := k.alive(expr)
		if err != nil || !alive {
			return err
		}
		if k.wants[client] == nil {
			strangers[client] = true
		}
		return add(recordGraph, r.Data)
	}))
	if err != nil {
		return err
	}
	// Desires first: what a graph has made its own client want is taken back after them, and
	// what others want must not be forgotten in between.
	for client, keys := range k.wants {
		if err := name(recordDesire, client, keysOf(keys)); err != nil {
			return err
		}
	}
	err = snap.Prefix(ctx, joinRecords(func(r journal.Record) error {
		if r.Kind != recordGraph {
			return nil
		}
		return k.takeBack(r, name)
	}))
	if err != nil {
		return err
	}
	for client := range strangers {
		if err := name(recordClientGone, client, nil); err != nil {
			return err
		}
	}
	for _, w := range k.workers {
		if err := name(recordWorker, w, nil); err != nil {
			return err
		}
	}
	for _, parts := range k.changes {
		if err := add(recordOp, parts...); err != nil {
			return err
		}
	}
	// What the snapshot stands for is deleted by Commit: first it must be readable.
	if err := snap.Verify(ctx, joinRecords(checkRecord)); err != nil {
		return err
	}
	return snap.Commit(ctx)
}

// checkRecord reads a record without doing what it tells.
func checkRecord(r journal.Record) error {
	switch r.Kind {
	case recordGraph:
		_, raw, expr, err := readGraphRecord(r.Data)
		if err != nil {
			return err
		}
		ops := wire.ReadOps(raw)
		if !ops.Next() {
			return errRecord
		}
		var u wire.UpdateGraph
		if _, err := readUpdate(&ops, &u); err != nil {
			return err
		}
		_, err = task.ReadGraph(expr)
		return err
	case recordOp:
		_, _, err := readOpRecord(r.Data)
		return err
	}
	_, _, err := readNameRecord(r.Data)
	return err
}

// dataKeeper wants, while a snapshot is read, the data from outside that no client wants
// any more and a graph may still need.
const dataKeeper = "data-of-clients-that-have-left"

// writeData writes which data from outside is there, before the graphs that may need it.
func (k *kept) writeData(write func(journal.Kind, string, []task.Key) error, strangers map[string]bool) error {
	unwanted := maps.Clone(k.data)
	for client, wants := range k.wants {
		var keys []task.Key
		for key := range wants {
			if k.data[key] {
				keys = append(keys, key)
				delete(unwanted, key)
			}
		}
		if len(keys) > 0 {
			if err := write(recordData, client, keys); err != nil {
				return err
			}
		}
	}
	if len(unwanted) == 0 {
		return nil
	}
	strangers[dataKeeper] = true
	return write(recordData, dataKeeper, keysOf(unwanted))
}

// alive tells whether a task of a graph is still known.
func (k *kept) alive(expr *wire.Serialized) (bool, error) {
	r, err := task.ReadGraph(expr)
	if err != nil {
		return false, err
	}
	var n task.Node
	for r.Next(&n) {
		if k.live[task.Key(n.Key)] {
			return true, nil
		}
	}
	return false, r.Err()
}

// takeBack releases the keys of a graph that its client no longer wants.
func (k *kept) takeBack(r journal.Record, write func(journal.Kind, string, []task.Key) error) error {
	client, raw, expr, err := readGraphRecord(r.Data)
	if err != nil {
		return err
	}
	alive, err := k.alive(expr)
	if err != nil || !alive {
		return err
	}
	ops := wire.ReadOps(raw)
	if !ops.Next() {
		return errRecord
	}
	var u wire.UpdateGraph
	g, err := readUpdate(&ops, &u)
	if err != nil {
		return err
	}
	var gone []task.Key
	for _, key := range g.ev.Keys {
		if !k.wants[client][key] {
			gone = append(gone, key)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return write(recordRelease, client, gone)
}

func keysOf(m map[task.Key]bool) []task.Key {
	out := make([]task.Key, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
