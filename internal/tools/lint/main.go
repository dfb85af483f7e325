// Lint runs the rules of the project (internal/tools/lint/rules) on the tree.
package main

import (
	"fmt"
	"os"

	"go.millstream.dev/internal/tools/lint/rules"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	root, err := tree.Root(".")
	if err == nil {
		var problems, more []rules.Problem
		if problems, err = rules.Check(root); err == nil {
			more, err = rules.CheckExamples(root)
		}
		if problems = append(problems, more...); err == nil && len(problems) > 0 {
			for _, p := range problems {
				fmt.Println(p)
			}
			err = fmt.Errorf("%d problems", len(problems))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}
