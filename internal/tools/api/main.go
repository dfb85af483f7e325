// Api prints the size of the public API of the module and writes its listing to api/*.txt, one line per exported name.
// With -check it writes nothing and fails if the listing is stale.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"go.millstream.dev/internal/tools/api/surface"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	check := flag.Bool("check", false, "check only: fail if the files in api/ are stale")
	top := flag.Int("top", 10, "number of the largest method sets to print")
	flag.Parse()
	if err := run(os.Stdout, ".", *check, *top); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir string, check bool, top int) error {
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
		return err
	}
	report(out, a, top)
	return a.Write(root)
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
