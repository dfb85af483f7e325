//go:build cgo

package ucx

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// unwantedVariable makes this test binary the process whose output is looked at.
const unwantedVariable = "MILLSTREAM_UCX_TEST_UNWANTED"

// Messages that nobody has received when a worker is closed are dropped without a word of UCX's on the terminal.
func TestUnwantedMessages(t *testing.T) {
	if os.Getenv(unwantedVariable) != "" {
		leaveUnwanted(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnwantedMessages$")
	cmd.Env = append(os.Environ(), unwantedVariable+"=1", "UCX_LOG_LEVEL=warn", "UCX_LOG_FILE=stderr",
		"GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte("descriptor")) {
		t.Errorf("UCX complains: %s", out)
	}
}

func leaveUnwanted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, features := range []Features{AllFeatures, AllFeatures &^ Tag} { // the second has nothing to drop
		c, err := NewContext(Config{Features: features, Options: map[string]string{"TLS": "self,sm"}})
		if err != nil {
			t.Fatal(err)
		}
		from, err := c.NewWorker(WorkerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		to, err := c.NewWorker(WorkerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		address, err := to.Address()
		if err != nil {
			t.Fatal(err)
		}
		ep, err := from.Connect(address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if features&Tag != 0 {
			for i := range uint64(20) {
				if err := ep.Send(ctx, Bytes(make([]byte, 50*i)), i); err != nil {
					t.Fatal(err)
				}
			}
			for found := false; !found; { // the last one is there
				if _, found, err = to.Probe(19, FullMask); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := to.Close(); err != nil {
			t.Error(err)
		}
		_, _ = from.Close(), c.Close()
	}
}
