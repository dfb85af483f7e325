package tcp

import (
	"context"
	"errors"
	"testing"

	"go.millstream.dev/comm"
)

// TryWrite sends short messages in order with Write, and nothing if it would have to wait.
func TestTryWrite(t *testing.T) {
	a, b := stagedPair(t, "tcp", comm.DialConfig{}, comm.ListenConfig{})
	want := frames(1, 100, 50)
	sent, err := a.TryWrite(t.Context(), want)
	if !sent || err != nil {
		t.Fatalf("short message: got %v, error %v, want true", sent, err)
	}
	if got, err := b.Read(t.Context()); err != nil || !equal(got, want) {
		t.Errorf("short message: got another one, error %v", err)
	}
	if sent, err := a.TryWrite(t.Context(), frames(1, tryBytes+1)); sent || err != nil {
		t.Errorf("long message: got %v, error %v, want false", sent, err)
	}
	if sent, err := a.TryWrite(t.Context(), frames(1)); sent || err == nil {
		t.Errorf("message without a body: got %v, error %v, want an error", sent, err)
	}
	a.wturn <- struct{}{}
	if sent, err := a.TryWrite(t.Context(), want); sent || err != nil {
		t.Errorf("during a Write: got %v, error %v, want false", sent, err)
	}
	a.wturn.give()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.TryWrite(ctx, want); !errors.Is(err, context.Canceled) {
		t.Errorf("context that has ended: got error %v, want %v", err, context.Canceled)
	}
	a.Abort()
	if sent, _ := a.TryWrite(t.Context(), want); sent {
		t.Error("after Abort: got true, want false")
	}
}

// A peer that does not read is never waited for: TryWrite refuses as soon as data is left in the buffers.
func TestTryWriteFull(t *testing.T) {
	a, _ := stagedPair(t, "tcp", comm.DialConfig{}, comm.ListenConfig{})
	m := frames(1, 4000)
	for i := range 1 << 20 {
		sent, err := a.TryWrite(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			t.Logf("refused after %d messages", i)
			return
		}
	}
	t.Error("TryWrite sent 4 GB to a peer that does not read")
}
