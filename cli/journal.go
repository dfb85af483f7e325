package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/scheduler"
)

const journalLong = `Check and repair the journal of a scheduler, the folder of scheduler --journal.

A scheduler does not start with a journal that it cannot read, and reports the
position of the damage. Both commands replay the journal as a scheduler does,
without starting one, and continue after damaged records. No scheduler may use
the journal meanwhile.`

func journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "journal",
		Short:   "Check or repair the journal of a scheduler",
		GroupID: groupCluster,
		Long:    journalLong,
		Args:    cmdline.NoSuchCommand,
		RunE:    cmdline.ShowHelp,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check DIR",
		Short: "List the damaged records of a journal",
		Long: `Read the journal in DIR and list each record that cannot be read or replayed,
with file, offset and cause. Nothing is changed.

Exit code: 1 if there are damaged records, else 0.`,
		Example: "  millstream journal check /var/lib/millstream/journal",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := scheduler.CheckJournal(args[0])
			if err != nil {
				return err
			}
			printJournal(cmd.OutOrStdout(), r)
			if len(r.Problems) > 0 {
				return cmdline.SilentError{}
			}
			return nil
		},
	}, &cobra.Command{
		Use:   "repair DIR",
		Short: "Rewrite a journal without its damaged records",
		Long: `Rewrite the journal in DIR without the records that check lists, and list them:
their contents are lost. The original is kept next to it, as DIR.damaged-1 or
with a higher number. A journal without damage is not changed.`,
		Example: "  millstream journal repair /var/lib/millstream/journal",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := scheduler.RepairJournal(args[0])
			if err != nil {
				return err
			}
			printJournal(cmd.OutOrStdout(), r)
			if r.Backup != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "repaired: %s removed; the original journal is in %s\n",
					count(len(r.Problems), "place"), r.Backup)
			}
			return nil
		},
	})
	return cmd
}

func printJournal(w io.Writer, r scheduler.JournalReport) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "bad: %s\n", p)
	}
	fmt.Fprintf(w, "%s can be read, %s cannot\n", count(int(r.Records), "record"), count(len(r.Problems), "place"))
}
