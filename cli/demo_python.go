package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"go.millstream.dev/internal/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/internal/dask/pyproc"
)

// commScript is the Python process of a pair, relative to the repository.
const commScript = "tests/interop/peers/bench_comm.py"

// demoPython lets Go talk to a Python process over Dask's own comms, where there is one.
func demoPython(ctx context.Context, out io.Writer) error {
	python, script, err := benchpeer.FindPython(commpeer.PeerName, commScript, os.Environ())
	var missing *benchpeer.MissingError
	if err == nil {
		// The interpreter that a scheduler would use, where there is one.
		if in, err := pyproc.Find(ctx, ""); err == nil {
			python = in.Path
		}
	}
	if errors.As(err, &missing) {
		fmt.Fprintf(out, "no Python with Dask to talk to: %s; `%s` brings one\n", missing.Reason, missing.Fix)
		return nil
	}
	if err != nil {
		return err
	}
	start := func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, script) }
	fmt.Fprintf(out, "Go talks to Python, in Dask's messages\n")
	t, err := commpeer.Converse(ctx, start, "tcp://127.0.0.1:0", nil)
	if err != nil {
		return fmt.Errorf("the conversation with Python: %w", err)
	}
	fmt.Fprintf(out, "  Go      connects to %s (Python %s, distributed %s)\n", t.Address, t.Python, t.Distributed)
	fmt.Fprintf(out, "  Go      sends %s\n", t.Sent)
	fmt.Fprintf(out, "  Python  sees %s; its sum is %.0f\n", t.Answer, t.Sum)
	fmt.Fprintf(out, "  Python  sends it back doubled; %.1f ms from first byte to last, and every number is right\n",
		t.Took.Seconds()*1e3)
	fmt.Fprintf(out, "  both    exchange small messages: %.0f us there and back\n", t.RTT.Seconds()*1e6)
	return nil
}
