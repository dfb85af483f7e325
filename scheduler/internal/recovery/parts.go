package recovery

import (
	"go.millstream.dev/scheduler/internal/journal"
)

// splitRecord appends a record, in parts if it is larger than limit: any number of recordPart and one recordPartEnd.
// The loop appends them one after the other, so that they are adjacent.
func splitRecord(limit int, kind journal.Kind, parts [][]byte, add func(journal.Kind, ...[]byte) error) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size <= limit {
		return add(kind, parts...)
	}
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), limit)
			if err := add(recordPart, p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
	}
	return add(recordPartEnd, []byte{byte(kind)})
}

// joinRecords returns a function that joins records that splitRecord has split, and passes whole ones to f. Parts
// without an end belong to a record that was truncated by a crash and never confirmed.
func joinRecords(f func(journal.Record) error) func(journal.Record) error {
	var parts []byte
	return func(r journal.Record) error {
		switch r.Kind {
		case recordPart:
			parts = append(parts, r.Data...)
			return nil
		case recordPartEnd:
			if len(r.Data) != 1 {
				return ErrRecord
			}
			whole := journal.Record{Kind: journal.Kind(r.Data[0]), Data: parts}
			parts = nil
			return f(whole)
		}
		parts = nil
		return f(r)
	}
}
