// Api prints the size of the public API of the module and writes its listing to api/*.txt, one line per exported name.
// With -check it writes nothing and fails if the listing is stale, or if a name of the last release is gone or changed
// and CHANGELOG.md does not say so. -freeze v0.1.0 keeps the listing of a release, in api/v0.1.0.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"go.millstream.dev/internal/tools/api/frozen"
	"go.millstream.dev/internal/tools/api/surface"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	check := flag.Bool("check", false, "check only: fail if the files in api/ are stale")
	freeze := flag.String("freeze", "", "version of a release, such as v0.1.0, whose listing is kept")
	top := flag.Int("top", 10, "number of the largest method sets to print")
	flag.Parse()
	if err := run(os.Stdout, ".", *check, *freeze, *top); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir string, check bool, freeze string, top int) error {
	root, err := tree.Root(dir)
	if err != nil {
		return err
	}
	a, err := surface.Read(root)
	if err != nil {
		return err
	}
	if check {
		stale, err := a.Stale(root)
		if err == nil && len(stale) > 0 {
			err = fmt.Errorf("stale API listing: %s; run make api", strings.Join(stale, ", "))
		}
		if err != nil {
			return err
		}
		return compatible(root)
	}
	report(out, a, top)
	if err := a.Write(root); err != nil || freeze == "" {
		return err
	}
	return frozen.Freeze(root, freeze)
}

// compatible returns an error that lists the changes since the last release that CHANGELOG.md does not name.
func compatible(root string) error {
	breaks, err := frozen.Breaks(root)
	if err != nil || len(breaks) == 0 {
		return err
	}
	var b strings.Builder
	for _, change := range breaks {
		fmt.Fprintf(&b, "\n  %v", change)
	}
	return fmt.Errorf("incompatible changes since the last release:%s\nname each, with its replacement, in "+
		"CHANGELOG.md under Changed or Removed, or undo it", b.String())
}

func report(out io.Writer, a *surface.API, top int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "package\texported names")
	for _, p := range a.Packages {
		fmt.Fprintf(w, "%s\t%d\n", p.Dir, p.Names)
	}
	fmt.Fprintf(w, "%d packages\t%d\n", len(a.Packages), a.Names())
	fmt.Fprintln(w, "\nlargest method sets\tall\texported")
	for _, s := range a.MethodSets[:min(top, len(a.MethodSets))] {
		fmt.Fprintf(w, "%s.%s\t%d\t%d\n", s.Dir, s.Type, s.All, s.Exported)
	}
	w.Flush()
}
