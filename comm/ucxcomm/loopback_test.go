package ucxcomm

import (
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/internal/testkit/leak"
)

// A listener on the loopback interface does not have UCX listen on others, neither for tagged nor for data.
func TestLoopbackListensNowhereElse(t *testing.T) {
	leak.Check(t)
	l, err := newBackend("ucxx", Settings{}).Listen(t.Context(), "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := l.(*listener).engine
	w, err := e.dataUCX()
	if err != nil {
		t.Fatal(err)
	}
	want := "tcp/" + ucxenv.LoopbackDevice()
	for name, got := range map[string][]string{"tagged": e.ctx.Info().Transports,
		"data": w.Context().Info().Transports} {
		if !slices.Contains(got, want) {
			t.Errorf("%s: transports %v, want %s among them", name, got, want)
		}
		for _, transport := range got {
			if strings.HasPrefix(transport, "tcp/") && transport != want {
				t.Errorf("%s: transport %s, want %s alone of tcp", name, transport, want)
			}
		}
	}
}
