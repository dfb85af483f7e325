package main

import (
	"os"
	"os/exec"
	"testing"
)

func TestField(t *testing.T) {
	status := []byte("Name:\tx\nPPid:\t17\nVmRSS:\t  2048 kB\nRssFile:\t1 kB\n")
	for name, want := range map[string]int64{"PPid:": 17, "VmRSS:": 2048, "RssFile:": 1, "VmSwap:": 0, "Name:": 0} {
		if got := field(status, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// A process with the argument of a renderer is found below its parent only.
func TestRendererMemory(t *testing.T) {
	if _, _, err := rendererMemory(os.Getpid()); err == nil {
		t.Error("renderer of a process without children: got no error")
	}
	// The shell waits for its input, so that it lives until the test has seen it.
	cmd := exec.Command("sh", "-c", "echo; read x", "--type=renderer")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	resident, own, err := rendererMemory(os.Getpid())
	if err != nil || resident < 100<<10 || own <= 0 || own >= resident {
		t.Errorf("got %d bytes, %d of them own, %v", resident, own, err)
	}
}
