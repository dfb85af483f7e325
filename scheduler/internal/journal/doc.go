// Package journal implements an append-only log of records on disk that survives crashes of its process and of its
// machine. The scheduler keeps graphs, desires, releases, clients, coordination primitives and plugins in it.
//
//	j, err := journal.Open(dir, journal.Options{OnCommit: wake}, func(r journal.Record) error {
//		return state.replay(r.Kind, r.Data) // in the order of the appends; Data borrows
//	})
//	ticket, err := j.Append(kindGraph, header, graph) // copies, never blocks on the disk
//	err = j.Wait(ctx, ticket)                          // or: OnCommit reports that it is on disk
//
// One goroutine writes and syncs. Records that are appended during a sync share the next one, so a thousand records
// cost as many syncs as the disk can do, not a thousand.
//
// # Durability
//
// A committed record is present after any crash. A record that was not committed may be present or not; never a part of
// one, and never one without all those before it. If a crash has torn the end of the last segment, the end is truncated
// when the journal is opened again. Damage before that, to committed data, is an error that names file and offset: a
// scheduler must not silently lose a graph. (Only damage within the last group that was written before a crash cannot
// be distinguished from a torn end. After Close there is no such group.)
//
// # Growth
//
// A full segment is sealed and the next one starts. [Journal.Compact] replaces all sealed segments by a snapshot:
// records that the owner writes, such that a replay of them alone gives the same state. The owner may write its live
// state, or fold the sealed segments, which do not change any more, on another goroutine ([Snapshot.Prefix]).
//
// # File format
//
// Every file begins with magic, version, a random salt and a checksum; every record carries a CRC-32C over salt,
// length, kind and data. The folder holds LOCK (flock: a journal has one owner), log-N (segments) and snapshot-N
// (replaces all segments below N). Files are created under a temporary name, synced and renamed.
package journal
