package interop

import (
	"errors"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// Python is killed in each state that a comm can be in; we notice, and nothing hangs.
func TestCommPythonDies(t *testing.T) {
	states := map[string]func(l *commLink) <-chan error{
		// Nobody reads or writes: Done alone must tell.
		"idle": func(l *commLink) <-chan error {
			return async(func() error { <-l.c.Done(); return l.c.Err() })
		},
		"reading": func(l *commLink) <-chan error {
			return async(func() error { _, err := l.c.Read(l.ctx); return err })
		},
		// Python does not read: the write waits for room.
		"writing": func(l *commLink) <-chan error {
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xc0}), wire.HeapFrame(make([]byte, 8<<20))}}
			return async(func() error {
				for {
					if err := l.c.Write(l.ctx, m); err != nil {
						return err
					}
				}
			})
		},
		// Python writes, and we have read no more than the start.
		"in a message": func(l *commLink) <-chan error {
			if _, err := l.peer.Post("write", pypeer.Command{"ep": l.name,
				"value": map[string]any{"kind": "array", "size": 400 << 20}}); err != nil {
				l.Fatal(err)
			}
			return async(func() error {
				for {
					if _, err := l.c.Read(l.ctx); err != nil {
						return err
					}
				}
			})
		},
	}
	for name, state := range states {
		for _, way := range []string{"client", "server"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				l := newCommRig(t).link(way)
				done := state(l)
				l.peer.Kill()
				if err := <-done; !errors.Is(err, comm.ErrClosed) {
					t.Errorf("the comm ended with %v", err)
				}
				<-l.c.Done()
				if err := l.c.Write(l.ctx, body("\xc0")); !errors.Is(err, comm.ErrClosed) {
					t.Errorf("a write after it: %v", err)
				}
			})
		}
	}
}
