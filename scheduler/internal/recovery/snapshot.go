package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/wire"
)

// content is the current content of a journal.
type content struct {
	live    map[task.Key]bool
	data    map[task.Key]bool            // subset of live: scattered data
	wants   map[string]map[task.Key]bool // by client
	workers []string
	changes [][][]byte // of primitives
}

// write writes a snapshot: the graphs with a task that is still known, followed by the keys that clients hold.
func (k *content) write(ctx context.Context, snap *journal.Snapshot) error {
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
	strangers := map[string]bool{} // removed clients whose graphs other clients still need
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
	// Desires first: keys that a graph makes its own client hold are released after them, and keys that others hold
	// must not be released in between.
	for client, keys := range k.wants {
		if err := name(recordDesire, client, keysOf(keys)); err != nil {
			return err
		}
	}
	err = snap.Prefix(ctx, joinRecords(func(r journal.Record) error {
		if r.Kind != recordGraph {
			return nil
		}
		return k.releaseKeys(r, name)
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
	// Commit deletes the files that the snapshot replaces, so it must be readable first.
	if err := snap.Verify(ctx, joinRecords(checkRecord)); err != nil {
		return err
	}
	return snap.Commit(ctx)
}

// checkRecord reads a record without applying it.
func checkRecord(r journal.Record) error {
	switch r.Kind {
	case recordGraph:
		_, raw, expr, err := readGraphRecord(r.Data)
		if err != nil {
			return err
		}
		if _, err := graphKeys(raw); err != nil {
			return err
		}
		_, err = taskgraph.Read(expr)
		return err
	case recordOp:
		_, _, err := readOpRecord(r.Data)
		return err
	}
	_, _, err := readNameRecord(r.Data)
	return err
}

// dataKeeper holds, while a snapshot is read, the scattered data that no client holds any more and a graph may still
// need.
const dataKeeper = "data-of-clients-that-have-left"

// writeData writes the scattered data, before the graphs that may need it.
func (k *content) writeData(write func(journal.Kind, string, []task.Key) error, strangers map[string]bool) error {
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

// alive reports whether a task of a graph is still known.
func (k *content) alive(expr *wire.Serialized) (bool, error) {
	r, err := taskgraph.Read(expr)
	if err != nil {
		return false, err
	}
	var n taskgraph.Node
	for r.Next(&n) {
		if k.live[task.Key(n.Key)] {
			return true, nil
		}
	}
	return false, r.Err()
}

// releaseKeys releases the keys of a graph that its client no longer holds.
func (k *content) releaseKeys(r journal.Record, write func(journal.Kind, string, []task.Key) error) error {
	client, raw, expr, err := readGraphRecord(r.Data)
	if err != nil {
		return err
	}
	alive, err := k.alive(expr)
	if err != nil || !alive {
		return err
	}
	keys, err := graphKeys(raw)
	if err != nil {
		return err
	}
	var gone []task.Key
	for _, key := range keys {
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

// contentOf returns the content for a state with these clients and workers. It runs in the loop.
func contentOf(st *state.State, clients map[string]state.ClientID, workers []string, changes Changes) (*content,
	error) {
	k := &content{
		live: make(map[task.Key]bool, st.NumTasks()), data: map[task.Key]bool{}, wants: map[string]map[task.Key]bool{},
		workers: workers,
	}
	for t := range st.Tasks() {
		k.live[t.Key()] = true
		if len(t.Spec()) == 0 {
			k.data[t.Key()] = true
		}
	}
	for name, id := range clients {
		c := st.Client(id)
		if c == nil {
			continue
		}
		keys := make(map[task.Key]bool, c.NumWanted())
		for i := range c.NumWanted() {
			keys[c.Wanted(i).Key()] = true
		}
		k.wants[name] = keys
	}
	var failed error
	changes(func(op string, args msgpack.Map) {
		parts, err := opParts(op, args)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", op, err))
			return
		}
		k.changes = append(k.changes, parts)
	})
	return k, failed
}

// graphKeys returns the keys that the message of a graph requests.
func graphKeys(raw []byte) (keys []task.Key, err error) {
	ops := message.ReadOps(raw)
	if !ops.Next() {
		return nil, ErrRecord
	}
	var u message.UpdateGraph
	if err := u.Read(&ops); err != nil {
		return nil, err
	}
	err = message.EachKey(u.Keys.Raw, func(k []byte) error {
		keys = append(keys, task.Key(k))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return keys, nil
}
