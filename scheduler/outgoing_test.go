package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// Peers that do not read are disconnected when too many bytes wait for all of them together; one that reads is not.
func TestOutgoingTotal(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{Outgoing: 1 << 30, OutgoingTotal: 8 << 20})
	text := strings.Repeat("x", 256<<10)
	for i := range 6 {
		c, err := comm.Default.Dial(t.Context(), s.Address(), comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abort)
		if err := rpc.Notify(t.Context(), c, "register-client",
			msgpack.MapOf("client", fmt.Sprintf("deaf-%d", i), "versions", msgpack.Map{})); err != nil {
			t.Fatal(err)
		}
	}
	reader := connect(t, s, "reader")
	until(t, "all clients are registered", func() bool {
		n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) { return len(s.clients.ByName), nil })
		return n == 7
	})
	_ = s.loop.Do(t.Context(), func() {
		for name := range s.clients.ByName {
			_ = s.topics.Subscribe("news", name)
		}
	})
	until(t, "clients that do not read are disconnected", func() bool {
		_ = s.loop.Do(t.Context(), func() { s.topics.Publish(text, "news") })
		reader.expectOp("event")
		n, _ := loop.Ask(t.Context(), s.loop, func() (n int, err error) {
			for _, c := range s.clients.ByName {
				if c.Stream != nil && !c.Stream.Gone && c.Stream.Comm.Err() == nil {
					n++
				}
			}
			return n, nil
		})
		if all := s.streams.Backlog.Bytes(); all > 64<<20 {
			t.Fatalf("bytes that wait for all peers: got %d, want about %d", all, 8<<20)
		}
		return n <= 2
	})
	if n, _ := loop.Ask(t.Context(), s.loop, func() (bool, error) {
		return s.clients.ByName["reader"].Stream != nil,
			nil
	}); !n {
		t.Error("client that reads: disconnected, want connected")
	}
}
