package ucxbench

import (
	"context"

	"go.millstream.dev/internal/bench/benchpeer"
)

// ucxxPeer is the Python package UCXX.
type ucxxPeer struct{ tool *benchpeer.UCXX }

func (p ucxxPeer) name() string { return p.tool.Name() }
func (p ucxxPeer) close()       { _ = p.tool.Close() } // temporary files

// applies reports whether UCXX can measure a job. UCXX connects by socket address, which shared memory alone does not
// support; its core API has no event loop that could be idle.
func (p ucxxPeer) applies(j Job) bool {
	if !j.Case.UCXX || j.Setting == "shm" || j.Size == 0 {
		return false
	}
	return j.Case.Kind != Idle || p.tool.Name() == benchpeer.UCXXAsyncName
}

func (p ucxxPeer) measure(ctx context.Context, j Job, spec Spec, env []string) (float64, error) {
	run := benchpeer.UCXXRun{
		Case: j.Case.Name, Size: j.Size, Iterations: spec.Iterations, Warmup: spec.Warmup, Window: spec.Window,
		Seconds: spec.Seconds, Memory: "host", Env: env,
	}
	if onDevice(j.Mem) {
		run.Memory = "cuda"
	}
	return p.tool.Run(ctx, run)
}
