// Fuzzall runs every fuzz target of the tree for a limited time, because the go command fuzzes one target at a time.
//
//	go run ./internal/tools/fuzzall -time 30s [-run PATTERN]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"go.millstream.dev/internal/tools/testfuncs"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	each := flag.Duration("time", 30*time.Second, "duration of fuzzing for each target")
	pattern := flag.String("run", "", "regular expression for `package.name` of the targets (default: all)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *each, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, each time.Duration, pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	root, err := tree.Root(".")
	if err != nil {
		return err
	}
	targets, err := testfuncs.Find(root, "Fuzz")
	if err != nil {
		return err
	}
	var bad []string
	ran := 0
	for _, target := range targets {
		name := target.Package + "." + target.Name
		if !re.MatchString(name) {
			continue
		}
		ran++
		fmt.Printf("== %s for %s\n", name, each)
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+target.Name+"$", "-fuzztime="+each.String(),
			target.Package)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 20 * time.Second
		cmd.Dir = root
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted during %s", name)
			}
			bad = append(bad, fmt.Sprintf("%s (%v)", name, err))
		}
	}
	if ran == 0 {
		return fmt.Errorf("no fuzz target matches %q", pattern)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d targets failed: %s\n  fix: the failing input is in "+
			"testdata/fuzz of the package; commit it with the fix",
			len(bad), ran, strings.Join(bad, ", "))
	}
	fmt.Printf("%d fuzz targets passed\n", ran)
	return nil
}
