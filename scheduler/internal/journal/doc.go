// Package journal is an append-only log of records on disk that survives the death of its process and of
// its machine. The scheduler keeps in it what it has promised: graphs, desires, releases, clients,
// coordination primitives and plugins.
//
//	j, err := journal.Open(dir, journal.Options{OnCommit: wake}, func(r journal.Record) error {
//		return state.replay(r.Kind, r.Data) // in the order of the appends; Data borrows
//	})
//	ticket, err := j.Append(kindGraph, header, graph) // copies, never blocks on the disk
//	err = j.Wait(ctx, ticket)                          // or: OnCommit says that it is on disk
//
// One goroutine writes and syncs. What is appended while a sync runs shares the next one, so a thousand
// promises cost as many syncs as the disk can do, not a thousand.
//
// # What survives
//
// A record whose ticket is committed is there after any crash. A record that was not may be there or not;
// never a part of one, and never one without all those before it. The end of the last segment that a crash
// has torn is cut off when the journal is opened again. Damage before that, to data that had been
// committed, is an error that names file and offset: a scheduler must not silently forget a graph.
// (The one thing that cannot be told apart is damage within the very last group that was written before a
// crash: it reads as a torn end. After Close nothing is left in doubt.)
//
// # Growth
//
// A segment that is full is sealed and the next begins. [Journal.Compact] replaces all sealed segments by a
// snapshot: records that the owner writes, such that a replay of them alone gives the same state.
// It may take them from its live state, or fold the sealed segments themselves on a goroutine of its own
// ([Snapshot.Prefix]), since they do not change any more.
//
// # On disk
//
// Every file begins with magic, version, a random salt and a checksum; every record carries a CRC-32C over
// salt, length, kind and data. The folder holds LOCK (flock: a journal has one owner), log-N (segments) and
// snapshot-N (stands for all segments below N). Files are made under a temporary name, synced and renamed.
package journal
