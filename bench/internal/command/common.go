package command

import (
	"context"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/proc/cmdline"
)

// completeFlags lets the shell offer each flag's values.
func completeFlags(cmd *cobra.Command, values map[string][]string) {
	for flag, list := range values {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list,
			cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // only for a flag that does not exist
		}
	}
}

// onePeer reads --peers of a benchmark that has a single peer to be compared with.
func onePeer(peers, name string) (wanted bool, err error) {
	switch peers {
	case "":
		return false, nil
	case allPeers, name:
		return true, nil
	}
	return false, cmdline.Usagef("unknown peer %q; there is %s", peers, name)
}

// ownCommand is another process of this program.
func ownCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0] // a binary of several commands goes by its name
	return cmd
}
