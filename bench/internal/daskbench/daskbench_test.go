package daskbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func TestComplete(t *testing.T) {
	var o Options
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	if o.Rounds != 7 || o.Tasks != 20_000 || o.Rows != 10_000_000 || len(o.Cases) != 5 {
		t.Errorf("defaults are %+v", o)
	}
	quick := Options{Quick: true, Cases: []string{"map-noop"}}
	if err := quick.Complete(); err != nil || quick.Rounds != 1 || quick.Tasks != 2_000 || len(quick.Cases) != 1 {
		t.Errorf("quick: %+v, %v", quick, err)
	}
	benchtest.Rejects(t, &Options{Cases: []string{"x"}}, &Options{Rounds: -1}, &Options{Rows: -5})
}

func TestValue(t *testing.T) {
	by := map[string]Case{}
	for _, c := range Cases() {
		by[c.Name] = c
	}
	a := answer{Seconds: 2, Tasks: 1000, CPU: 0.5}
	for name, want := range map[string]float64{schedulerCPU: 500, mapNoop: 500, randomDAG: 2, mergeTree: 2,
		frameMerge: 2} {
		if got, err := value(by[name], a); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for _, bad := range []answer{{Tasks: 1}, {Seconds: 1}} {
		if _, err := value(by[mapNoop], bad); err == nil {
			t.Errorf("%+v has a value", bad)
		}
	}
	if _, err := value(by[schedulerCPU], answer{Seconds: 1, Tasks: 1}); err == nil {
		t.Error("a scheduler without processor time has a value")
	}
}

func TestReadStat(t *testing.T) {
	pid, parent, seconds, err := readStat("42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 25 25 20 0 1 0 99")
	if err != nil || pid != 42 || parent != 7 || seconds != 2.5 {
		t.Errorf("%d, %d, %v, %v", pid, parent, seconds, err)
	}
	for _, bad := range []string{"", "x", "1 (a", "1 (a) S 2 3", "x (a) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 25 25 20",
		"1 (a) S x 42 42 0 -1 4194560 1 2 3 4 150 50 25 25 20", "1 (a) S 7 42 42 0 -1 4194560 1 2 3 4 150 y 25 25 20"} {
		if _, _, _, err := readStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The time of a process has that of its children in it, the living and the dead.
func TestTreeTime(t *testing.T) {
	const burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
	cmd := exec.Command("sh", "-c", "sh -c '"+burn+"'; sh -c 'echo up; cat'; :")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := startProcess("sh", cmd, "up")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		<-p.child.Done
	}()
	got, err := treeTime(cmd.Process.Pid)
	if err != nil || got <= 0 {
		t.Errorf("it used %v s, %v", got, err)
	}
	if whole, err := treeTime(os.Getpid()); err != nil || whole < got {
		t.Errorf("we used %v s, a child %v s, %v", whole, got, err)
	}
	if _, err := treeTime(1 << 30); err == nil {
		t.Error("a process that is not there has used time")
	}
}

func TestStartProcessTellsWhy(t *testing.T) {
	_, _, err := startProcess("it", exec.Command("sh", "-c", "echo no luck; exit 3"), "ready")
	if err == nil || !strings.Contains(err.Error(), "it exited") || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("got %v", err)
	}
	if _, _, err = startProcess("it", exec.Command("/nowhere"), "ready"); err == nil {
		t.Error("a program that is not there has started")
	}
}

// measured runs the benchmark.
func measured(t *testing.T, p Programs, o Options) (benchfmt.Figures, error) {
	t.Helper()
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, nil)
	})
}

// scripted are processes of shell scripts: schedulers and workers that are ready at once, and a client that answers
// with what the file says.
func scripted(t *testing.T, ours, theirs string) Programs {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The scheduler notes whose it is; the client answers for it.
	python := write("python", fmt.Sprintf(`#!/bin/sh
case "$2" in
*scheduler) echo theirs >%[1]s/side; echo "Scheduler at: tcp://x"; exec sleep 1000;;
*worker) echo "Registered to: tcp://x"; exec sleep 1000;;
esac
read connect; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo '{}'
read line
if [ "$(cat %[1]s/side)" = ours ]; then echo '%[2]s'; else echo '%[3]s'; fi
cat >/dev/null
`, dir, ours, theirs))
	return Programs{Client: &benchpeer.Program{Python: python, Script: "client.py"},
		Millstream: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "sh", "-c",
				fmt.Sprintf(
					`if [ %s = scheduler ]; then echo ours >%s/side; echo "scheduler at tcp://x"; else echo "worker at y"; fi; exec sleep 1000`, args[0], dir))
		}}
}

func TestRun(t *testing.T) {
	o := Options{Peer: true, Rounds: 2, Cases: []string{mapNoop, mergeTree}}
	p := scripted(t, `{"seconds": 2, "tasks": 1000, "check": "a"}`, `{"seconds": 4, "tasks": 1000, "check": "a"}`)
	got, err := measured(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Ours != 500 || got[0].Theirs != 250 || got[1].Ours != 2 || got[1].Theirs != 4 ||
		got[0].Tasks != 1000 {
		t.Errorf("figures %+v", got)
	}
	if met, known := got[0].Met(); met || !known {
		t.Errorf("twice Dask's rate is met %v, known %v", met, known)
	}
	if met, known := got[1].Met(); !met || !known {
		t.Errorf("half of Dask's time is met %v, known %v", met, known)
	}
}

func TestRunRefuses(t *testing.T) {
	o := Options{Peer: true, Rounds: 1, Cases: []string{mergeTree}}
	for want, theirs := range map[string]string{
		"results differ": `{"seconds": 4, "tasks": 1000, "check": "b"}`,
		"no luck":        `{"error": "no luck"}`,
		"0 tasks":        `{"seconds": 4, "check": "a"}`,
	} {
		_, err := measured(t, scripted(t, `{"seconds": 2, "tasks": 1000, "check": "a"}`, theirs), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
