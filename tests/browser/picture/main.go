// Picture runs the demo, opens its dashboard in chromium and writes a picture of the task stream. `make
// dashboard-picture` runs it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"

	"go.millstream.dev/tests/browser"
)

func main() {
	out := flag.String("o", "docs/plots/task-stream.png", "`file` of the picture")
	command := flag.String("command", "bin/millstream demo --part cluster --keep",
		"command that prints the address of "+
			"a dashboard and keeps it up on a terminal")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, *command, *out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

var address = regexp.MustCompile(`dashboard of the cluster at (http://\S+)`)

func run(ctx context.Context, command, out string) error {
	// script, of util-linux, is a terminal, without which the demo ends at once.
	cmd := exec.CommandContext(ctx, "script", "-qec", command, os.DevNull)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_, _ = stdin.Write([]byte{3}) // Ctrl-C
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			return shoot(ctx, m[1], out)
		}
	}
	return fmt.Errorf("%s printed no address: %v", command, lines.Err())
}

// shoot writes a picture of the task stream of a dashboard.
func shoot(ctx context.Context, url, out string) error {
	chrome, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer chrome.Close()
	tab, err := chrome.Open(browser.Look{Width: 1200, Height: 480})
	if err != nil {
		return err
	}
	defer tab.Close()
	if err := tab.Go(url + "#/stream"); err != nil {
		return err
	}
	for _, step := range []struct{ wait, then string }{
		{`document.querySelector(".plot canvas").dataset.window`,
			`document.querySelector("button[aria-label='Show the whole history']").click()`},
		{`document.querySelector(".plot canvas").dataset.tiles === "ready" &&
			document.querySelector("button[aria-pressed]").ariaPressed === "false"`, `0`},
	} {
		if err := tab.Wait(ctx, step.wait); err != nil {
			return err
		}
		if err := tab.Eval(step.then, nil); err != nil {
			return err
		}
	}
	png, err := tab.Screenshot()
	if err != nil {
		return err
	}
	return os.WriteFile(out, png, 0o644)
}
