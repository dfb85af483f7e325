package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/collbench"
	"go.millstream.dev/bench/internal/kmeansbench"
	"go.millstream.dev/bench/internal/report"
	"go.millstream.dev/internal/bench/benchfmt"
)

// reportCommand returns the command that writes a page from records.
func reportCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "report DIR PAGE",
		Short: "Write a page with tables and plots from recorded runs",
		Long: `Writes the Markdown file PAGE from the folder DIR, and the plots to the folder
plots next to the page. DIR has README.md with title and method, order.txt with
the names of the sections, and for each section NAME.md and the records
NAME.json and NAME-*.json, which the benchmarks write with --record.`,
		Example: "  millstream bench comm --peers --record docs/benchmarks/comm.json\n" +
			"  millstream bench report docs/benchmarks docs/benchmarks.md",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			page, err := report.Make(args[0], "plots", plotOf)
			if err != nil {
				return err
			}
			if check {
				return checkPage(args[1], page)
			}
			return writePage(args[1], page)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if the page or a plot is not current")
	return cmd
}

// plotOf draws the figures of a record.
func plotOf(figures []benchfmt.Figure) io.WriterTo {
	switch figures[0].Bench {
	case "allreduce":
		return collbench.Plot(figures, 0)
	case "kmeans":
		return kmeansbench.Plot(figures)
	}
	return defaultPlot(figures)
}

// pageFiles returns the contents of the page and its plots by path.
func pageFiles(path string, page *report.Page) map[string][]byte {
	files := map[string][]byte{path: page.Text}
	for name, image := range page.Plots {
		files[filepath.Join(filepath.Dir(path), "plots", name)] = image
	}
	return files
}

func writePage(path string, page *report.Page) error {
	if err := os.MkdirAll(filepath.Join(filepath.Dir(path), "plots"), 0o755); err != nil {
		return err
	}
	for name, content := range pageFiles(path, page) {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func checkPage(path string, page *report.Page) error {
	var stale []string
	for name, content := range pageFiles(path, page) {
		if old, err := os.ReadFile(name); err != nil || !bytes.Equal(old, content) {
			stale = append(stale, name)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return fmt.Errorf("report: not current: %q; run make bench-report", stale)
}
