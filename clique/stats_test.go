package clique

import (
	"testing"
	"time"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/wire/msgpack"
)

func TestStats(t *testing.T) {
	var s stats
	s.add(&collective.Call{Code: collective.AllReduce, Send: collective.Memory{Bytes: make([]byte, 8)},
		Recv: collective.Memory{Bytes: make([]byte, 16)}}, time.Second)
	s.add(&collective.Call{Code: collective.AllReduce}, time.Second)
	s.add(&collective.Call{Code: 255}, time.Second) // no operation
	got := s.report()
	if len(got) != 1 || got[0].Key != "AllReduce" {
		t.Fatalf("report: got %v, want AllReduce only", got)
	}
	if v := got[0].Value.([]any); v[0] != int64(2) || v[1] != int64(16) || v[2] != 2.0 {
		t.Errorf("AllReduce: got %v, want 2 calls, 16 bytes, 2 s", v)
	}
	if _, err := msgpack.Append(nil, got); err != nil {
		t.Errorf("report cannot be encoded: %v", err)
	}
}
