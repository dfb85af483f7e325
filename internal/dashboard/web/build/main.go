// Build bundles the browser part of the dashboard: src/ to dist/. `make dashboard` runs it after the type check.
//
//	go run ./internal/dashboard/web/build [-dir internal/dashboard/web]
package main

import (
	"flag"
	"fmt"
	"os"

	"go.millstream.dev/internal/dashboard/web/build/bundle"
)

func main() {
	dir := flag.String("dir", "internal/dashboard/web", "`folder` with src and dist")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := bundle.Build(dir)
	if err != nil {
		return err
	}
	total, err := bundle.Write(dir, files)
	if err != nil {
		return err
	}
	fmt.Printf("%s/dist: %d bytes\n", dir, total)
	return nil
}
