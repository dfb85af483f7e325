package taskbench

import (
	"context"
	"os"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchpeer"
	_ "go.millstream.dev/internal/comm/tcp" // tcp://
)

// python starts Dask's side of the benchmark.
func python(t *testing.T) side {
	t.Helper()
	program, err := benchpeer.FindProgram(PeerName, benchpeer.ScriptTasks, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return side{PeerName, program.Start}
}

// Workers that do nothing satisfy Dask's own scheduler: what they say is the protocol.
func TestZeroWorkersWithDask(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	b := &bench{dir: t.TempDir()}
	ask := func(p *process, c command) answer {
		t.Helper()
		a, err := p.ask(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var processes [2]*process
	for i := range processes {
		p, err := b.startProcess(ctx, python(t))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		processes[i] = p
	}
	scheduler, client := processes[0], processes[1]
	at := ask(scheduler, command{Do: "scheduler"})
	z, err := startZero(ctx, at.Address, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer z.close()
	const n = 500
	before := ask(scheduler, command{Do: "usage"})
	if a := ask(client, command{Do: "flood", Address: at.Address, N: n}); a.Tasks != n {
		t.Errorf("%+v", a)
	}
	held := ask(scheduler, command{Do: "usage", N: n})
	ask(client, command{Do: "release"})
	after := ask(scheduler, command{Do: "empty"})
	if held.CPU <= before.CPU || after.CPU < held.CPU || held.RSS == 0 {
		t.Errorf("%+v, %+v, %+v", before, held, after)
	}
	t.Logf("%.0f µs of Dask's scheduler a task", (after.CPU-before.CPU)*1e6/n)
}
