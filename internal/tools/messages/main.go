// Command messages writes the methods that read and write the messages of package internal/wire/message, from the
// structs of that package: see its documentation for the tags.
//
//	go generate ./internal/wire/message
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", ".", "folder of the package")
	flag.Parse()
	files, err := generate(*dir)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*dir, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}
