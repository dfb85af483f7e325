package scheduler

import (
	"fmt"
	"log/slog"

	"go.millstream.dev/scheduler/internal/journal"
)

// JournalReport is what CheckJournal and RepairJournal have found.
type JournalReport struct {
	// Records that can be read and replayed.
	Records uint64
	// Problems name file, place, length and cause of what cannot.
	Problems []string
	// Backup is the folder with the journal as it was; "" when nothing was repaired.
	Backup string
}

// CheckJournal replays the journal in a folder as a scheduler does at its start, goes on after what it cannot read, and
// lists that. It changes nothing. No scheduler may use the journal meanwhile.
func CheckJournal(dir string) (JournalReport, error) { return replayAll(dir, journal.Check) }

// RepairJournal writes the journal in a folder again without what CheckJournal lists. The journal as it was stays under
// another name next to it.
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
