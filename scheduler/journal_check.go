package scheduler

import (
	"fmt"
	"log/slog"

	"go.millstream.dev/scheduler/internal/journal"
)

// JournalReport is returned by CheckJournal and RepairJournal.
type JournalReport struct {
	// Records is the number of records that can be read and replayed.
	Records uint64
	// Problems are the file, place, length and cause of records that cannot be read.
	Problems []string
	// Backup is the folder with the original journal; "" if nothing was repaired.
	Backup string
}

// CheckJournal replays the journal in a folder as a scheduler does at its start, continues after records that it cannot
// read, and lists them. It changes nothing. No scheduler may use the journal meanwhile.
func CheckJournal(dir string) (JournalReport, error) { return replayAll(dir, journal.Check) }

// RepairJournal rewrites the journal in a folder without the records that CheckJournal lists. The original journal is
// kept under another name next to it.
func RepairJournal(dir string) (JournalReport, error) { return replayAll(dir, journal.Repair) }

func replayAll(dir string, f func(string, journal.Options, func(journal.Record) error) (journal.Report,
	error)) (JournalReport, error) {
	dir, err := journal.Folder(dir, false)
	if err != nil {
		return JournalReport{}, fmt.Errorf("scheduler: journal in %s: %w", dir, err)
	}
	s := New(Config{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = s.Close() }()
	found, err := f(dir, journal.Options{}, s.recovery.Replay())
	out := JournalReport{Records: found.Records, Backup: found.Backup}
	for _, p := range found.Problems {
		out.Problems = append(out.Problems, p.String())
	}
	return out, err
}
