package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
)

// checkReport is the output of `millstream config check --json`.
type checkReport struct {
	Files    []string `json:"files"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

func configCheckCommand() *cobra.Command {
	var source configSource
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "check [FILE]...",
		Short: "Check files and environment against the schema",
		Long: `Read the configuration as Millstream does at start and list all errors in the UCX, RMM and millstream
sections: unknown keys with the most similar valid one, wrong types, invalid sizes, contradictory settings.
Deprecated keys are warnings that name their replacement. With FILEs, only those and the environment are
read.

Exit code: 1 if there are errors, else 0. With --strict warnings count as errors.`,
		Example: `  millstream config check
  millstream config check ./dask.yaml --strict`,
		RunE: func(cmd *cobra.Command, files []string) error {
			for _, f := range files {
				if _, err := os.Stat(f); err != nil {
					return err
				}
			}
			source.files = append(source.files, files...)
			r := source.check()
			if asJSON {
				if err := writeIndented(cmd.OutOrStdout(), r); err != nil {
					return err
				}
			} else {
				for _, p := range r.Problems {
					fmt.Fprintf(cmd.OutOrStdout(), "error: %s\n", p)
				}
				for _, w := range r.Warnings {
					fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s read: %s, %s\n", count(len(r.Files), "file"),
					count(len(r.Problems), "error"), count(len(r.Warnings), "warning"))
			}
			if len(r.Problems) > 0 || strict && len(r.Warnings) > 0 {
				return cmdline.SilentError{}
			}
			return nil
		},
	}
	source.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit code 1 also for warnings")
	return cmd
}

func (s *configSource) check() checkReport {
	r := checkReport{Files: []string{}, Problems: []string{}, Warnings: []string{}}
	cfg, err := s.load(true)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
		return r
	}
	r.Files = append(r.Files, cfg.Files()...)
	for _, p := range cfg.Check() {
		r.Problems = append(r.Problems, p.Error())
	}
	var settings *config.Settings
	if len(r.Problems) == 0 {
		if settings, err = cfg.Settings(config.Overrides{}); err != nil {
			r.Problems = append(r.Problems, err.Error())
		} else {
			s.warnings = append(s.warnings, settings.Warnings...)
		}
	}
	for _, w := range s.warnings {
		r.Warnings = append(r.Warnings, w.String())
	}
	return r
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
