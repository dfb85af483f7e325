package scheduler

import (
	"fmt"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// A change that a client has requested is made, as in Dask, even if the client disconnects right after the request: a
// lock whose release is lost would stay held.
func TestChangesOfCallersThatLeft(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	const n = 100
	for i := range n {
		name := fmt.Sprint("e", i)
		x, err := comm.Dial(t.Context(), s.Address(), comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.Encode(msgpack.MapOf("op", "event_set", "name", name, "reply", true), wire.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		_ = x.Close()
	}
	for i := range n {
		until(t, fmt.Sprintf("event %d is set", i), func() bool {
			return c.call("event_is_set", "name",
				fmt.Sprint("e", i)) == true
		})
	}
}
