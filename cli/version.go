package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/cmdline"
)

// release is set by the release build:
// -ldflags "-X go.millstream.dev/cli.release=v1.2.3".
var release string

// Version is the release (or the module version, or "devel"), the commit
// where the build recorded one, and the Go version and platform.
func Version() string {
	version, commit := release, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				commit = " " + s.Value[:12]
			}
		}
	}
	if version == "" {
		version = "devel"
	}
	return fmt.Sprintf("%s%s (%s %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		GroupID: groupStart,
		Long:    "Prints the release, the commit, the Go version and the platform.",
		Example: "  millstream version",
		Args:    cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "millstream "+Version())
			return err
		},
	}
}
