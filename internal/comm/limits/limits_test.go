package limits

import (
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/framing"
)

func TestFill(t *testing.T) {
	got := Fill(comm.Limits{})
	if got.Pending < 1 || got.Pending > 1024 {
		t.Errorf("got %d unfinished handshakes, want 1 to 1024", got.Pending)
	}
	got.Pending = 0
	want := comm.Limits{Message: 64 << 30, Frames: 1 << 20, Handshake: 64 << 10, HandshakeTime: 10 * time.Second}
	if got != want {
		t.Errorf("defaults: got %+v, want %+v", got, want)
	}
	own := comm.Limits{Message: 1, Frames: 2, Handshake: 3, HandshakeTime: 4, Pending: 5}
	if got := Fill(own); got != own {
		t.Errorf("limits that are set: got %+v, want %+v", got, own)
	}
}

func TestHandshake(t *testing.T) {
	l := comm.Limits{Message: 1000, Frames: 20, Handshake: 100}
	if got, want := BeforeHandshake(l), (framing.Limits{Message: 100, Frames: 16}); got != want {
		t.Errorf("before: got %+v, want %+v", got, want)
	}
	if got, want := AfterHandshake(l), (framing.Limits{Message: 1000, Frames: 20}); got != want {
		t.Errorf("after: got %+v, want %+v", got, want)
	}
}
