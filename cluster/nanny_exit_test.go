package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
)

// An exit without a final event is a crash, whatever its code, and a final event counts whatever the code.
func TestNannyExitCodes(t *testing.T) {
	leak.Check(t)
	for _, code := range []int{0, 1, 2, 3, 75, 255} {
		for _, final := range []string{"", eventClosed, eventLost, eventRestart, eventFailed} {
			t.Run(fmt.Sprintf("%d %s", code, final), func(t *testing.T) {
				t.Parallel()
				n := startNanny(t, "exit", WorkerSpec{Name: "kim", Contact: strconv.Itoa(code), Interface: final},
					NannyConfig{pause: time.Microsecond, MaxFailures: 2, stable: time.Hour})
				if final == eventRestart {
					until(t, "a third process", func() bool { return n.Info().Starts >= 3 })
					return
				}
				err := ended(t, n)
				starts, text := 1, ""
				switch final {
				case "":
					starts, text = 2, fmt.Sprintf("given up after 2 processes: process ended with exit code %d", code)
				case eventLost:
					text = "as the test wants"
				case eventFailed:
					starts, text = 2, "given up after 2 processes: as the test wants"
				}
				if got := n.Info().Starts; got != starts {
					t.Errorf("got %d processes, want %d", got, starts)
				}
				if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
					t.Errorf("got error %v, want %q", err, text)
				}
			})
		}
	}
}

// A process that registers and exits at once has been ready, whichever of the two the nanny detects first.
func TestNannyReadyBeforeDeath(t *testing.T) {
	leak.Check(t)
	done := make(chan struct{})
	close(done)
	for i := range 50 {
		n := &Nanny{changed: make(chan struct{}), cfg: NannyConfig{StartTimeout: -1, Interval: time.Hour}}
		p := &process{child: &childproc.Child{Done: done}, events: make(chan event, 2)}
		p.events <- event{Event: eventReady, Address: "tcp://worker"}
		close(p.events)
		if end := n.watch(p); !end.ready || n.info.Address != "tcp://worker" {
			t.Fatalf("round %d: got ready %v, address %q, want true and tcp://worker", i, end.ready, n.info.Address)
		}
	}
}
