// Command states writes docs/protocol/scheduler-states.md and worker-states.md from the tables of the two state
// machines: the diagrams of the states of tasks, the transitions and the rules.
//
//	go generate ./internal/tools/states
package main

//go:generate go run . -root ../../..

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	for name, text := range pages() {
		if err := os.WriteFile(filepath.Join(*root, name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "states:", err)
			os.Exit(1)
		}
	}
}
