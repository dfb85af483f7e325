package transfer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

func TestTraffic(t *testing.T) {
	var n traffic
	if got := n.total(); got != startBandwidth {
		t.Fatalf("initial bandwidth: got %v, want %v", got, startBandwidth)
	}
	second := Record{Peer: "tcp://a", Incoming: true, Bytes: 200_000_000, Took: time.Second}
	small, out, failed := second, second, second
	small.Bytes, out.Incoming, failed.Error = 999_999, false, "busy"
	for _, r := range []Record{small, out, failed} {
		n.observe(&r)
	}
	if got := n.total(); got != startBandwidth || n.peers != nil {
		t.Errorf("after irrelevant transfers: got %v, peers %v", got, n.peers)
	}
	n.observe(&second)
	if got, want := n.total(), 0.95*startBandwidth+0.05*2e8; math.Abs(got-want) > 1 {
		t.Errorf("bandwidth %v, want %v", got, want)
	}
	if got := n.peers["tcp://a"]; got != (measured{2e8, 1}) {
		t.Errorf("first transfer of a peer: got %+v", got)
	}
	second.Took = 2 * time.Second
	n.observe(&second)
	if got := n.peers["tcp://a"]; math.Abs(got.rate-(0.95*2e8+0.05*1e8)) > 1 || got.count != 2 {
		t.Errorf("second transfer of a peer: got %+v", got)
	}
	m := n.bandwidths()
	peers, _ := m.Get("workers")
	if row, _ := peers.(msgpack.Map).Get("tcp://a"); fmt.Sprint(row) != fmt.Sprint([]any{n.peers["tcp://a"].rate,
		int64(2)}) {
		t.Errorf("heartbeat: got %v", m)
	}
	for i := range 3 * maxPeers {
		second.Peer = fmt.Sprint("tcp://", i)
		n.observe(&second)
	}
	if len(n.peers) > maxPeers {
		t.Errorf("got %d peers", len(n.peers))
	}
}

func TestRecordEnd(t *testing.T) {
	r := Record{Start: time.Now().Add(-time.Second)}
	r.markArrived()
	took := r.Took
	r.Start = r.Start.Add(-time.Hour)
	r.finish(true, nil)
	if r.Took != took || r.Duration != took.Seconds() || r.Error != "busy" {
		t.Errorf("got %+v, want the duration until the arrival", r)
	}
	r = Record{Start: time.Now().Add(-time.Second)}
	if r.finish(true, fmt.Errorf("broken")); r.Took < time.Second || r.Error != "broken" {
		t.Errorf("failed transfer: got %+v", r)
	}
}
