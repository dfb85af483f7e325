package ucx

import (
	"errors"
	"io"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// TestErrAfterClose checks what Done and Err say after a Close: this side has no error, the peer has ErrPeerClosed.
func TestErrAfterClose(t *testing.T) {
	leak.Check(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := a.Err(); err != nil {
		t.Errorf("Err of an open endpoint: got %v, want nil", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ep := range []*Endpoint{a, b} {
		select {
		case <-ep.Done():
		case <-time.After(soon):
			t.Fatal("Done is not closed")
		}
	}
	if err := a.Err(); err != nil {
		t.Errorf("Err after an own Close: got %v, want nil", err)
	}
	if err := b.Err(); !errors.Is(err, ErrPeerClosed) || !errors.Is(err, io.EOF) {
		t.Errorf("Err after the peer's Close: got %v, want ErrPeerClosed", err)
	}
}
