package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

const stream = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"noise of a good test\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"run","Package":"m/a","Test":"TestSkip"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:3: no device\n"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip"}
{"Action":"run","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:9: the reason it is bad\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"fail","Package":"m/a","Elapsed":0.5}
{"Action":"skip","Package":"m/notests"}
`

func TestEvents(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out)
	if err := r.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	if r.passed != 1 || r.failed != 1 || r.packages != 1 || r.notests != 1 {
		t.Errorf("passed %d failed %d packages %d notests %d, want 1 each", r.passed, r.failed, r.packages, r.notests)
	}
	if want := (skip{"m/a", "TestSkip", "a_test.go:3: no device"}); len(r.skipped) != 1 || r.skipped[0] != want {
		t.Errorf("skipped = %v, want %v", r.skipped, want)
	}
	text := out.String()
	if !strings.Contains(text, "the reason it is bad") || !strings.Contains(text, "1 passed, 1 failed, 1 skipped") {
		t.Errorf("output lacks the failure or the tally:\n%s", text)
	}
	if strings.Contains(text, "noise of a good test") {
		t.Errorf("output of a good test was printed:\n%s", text)
	}
	if len(r.output) != 0 || len(r.running) != 0 {
		t.Errorf("kept after the end: output %v, running %v", r.output, r.running)
	}
}

func TestEventsCrash(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out)
	err := r.read(strings.NewReader(`go: some complaint
{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestCut"}
{"Action":"output","Package":"m/a","Test":"TestCut","Output":"panic: boom\n"}
{"Action":"run","Package":"m/b","Test":"TestElsewhere"}
{"Action":"fail","Package":"m/a","Elapsed":0.5}
`))
	if err != nil {
		t.Fatal(err)
	}
	if r.failed != 1 || len(r.badPackages) != 1 {
		t.Errorf("failed %d, bad packages %v: a test that never ended must count as failed", r.failed, r.badPackages)
	}
	for _, want := range []string{"go: some complaint\n", "panic: boom\n", "TestCut (did not finish)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	if got := r.nowRunning(); got != "b.TestElsewhere" {
		t.Errorf("nowRunning = %q", got)
	}
}

func TestEventsBuildFailure(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out)
	err := r.read(strings.NewReader(`{"ImportPath":"m/a [m/a.test]","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"ImportPath":"m/a [m/a.test]","Action":"build-fail"}
{"Action":"start","Package":"m/a"}
{"Action":"fail","Package":"m/a","Elapsed":0,"FailedBuild":"m/a [m/a.test]"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.badPackages) != 1 || !strings.Contains(out.String(), "undefined: x") {
		t.Errorf("bad packages %v, output:\n%s", r.badPackages, out.String())
	}
}

func TestNowRunning(t *testing.T) {
	r := newResults(io.Discard)
	if got := r.nowRunning(); got != "compiling" {
		t.Errorf("nothing running: %q", got)
	}
	for _, name := range []string{"TestA", "TestA/x", "TestB", "TestC", "TestD", "TestE"} {
		r.add(event{Action: "run", Package: "m/p", Test: name})
	}
	if got, want := r.nowRunning(), "p.TestA/x, p.TestB, p.TestC, p.TestD and 1 more"; got != want {
		t.Errorf("nowRunning = %q, want %q", got, want)
	}
}

func TestHeartbeat(t *testing.T) {
	r := newResults(io.Discard)
	r.add(event{Action: "run", Package: "m/p", Test: "TestSlow"})
	lines, w := io.Pipe()
	stop := r.heartbeat(w, time.Millisecond)
	buf := make([]byte, 100)
	n, err := lines.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), "p.TestSlow") {
		t.Errorf("heartbeat wrote %q, %v", buf[:n], err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	stop()
	w.Close()
}

// The slowest tests are listed, longest first and without their subtests.
func TestSlowest(t *testing.T) {
	r := newResults(io.Discard)
	err := r.read(strings.NewReader(`{"Action":"pass","Package":"m/a","Test":"TestA","Elapsed":2}
{"Action":"pass","Package":"m/a","Test":"TestB/part","Elapsed":9}
{"Action":"fail","Package":"m/a","Test":"TestB","Elapsed":9.5}
{"Action":"pass","Package":"m/b","Test":"TestA","Elapsed":2}
{"Action":"pass","Package":"m/b","Test":"TestC","Elapsed":1}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := "   9.5s m/a TestB|   2.0s m/a TestA|   2.0s m/b TestA"
	if got := strings.Join(r.slowest(3), "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.slowest(9); len(got) != 4 {
		t.Errorf("got %d lines, want 4: %q", len(got), got)
	}
}
