package clique

import (
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/ucx"
)

func TestUnknownClique(t *testing.T) {
	h := &hub{host: &task.Host{Worker: "tcp://a:1"}}
	if _, err := h.session("x"); !errors.Is(err, ErrUnknown) ||
		!strings.Contains(err.Error(), "tcp://a:1 has no clique x") {
		t.Errorf("got error %v for an unknown clique, want ErrUnknown with both names", err)
	}
}

func TestOrder(t *testing.T) {
	in := []Member{
		{Worker: "tcp://b:1", Host: "tcp://b", GPU: 0},
		{Worker: "tcp://a:9", Host: "tcp://a", GPU: 1},
		{Worker: "tcp://a:7", Host: "tcp://a", GPU: 1},
		{Worker: "tcp://a:8", Host: "tcp://a", GPU: 0},
		{Worker: "tcp://a:6", Host: "tcp://a", GPU: -1, UUID: "GPU-2"},
		{Worker: "tcp://a:5", Host: "tcp://a", GPU: -1, UUID: "GPU-3"},
	}
	order(in)
	var got []string
	for i, m := range in {
		if m.Rank != i {
			t.Errorf("rank %d is numbered %d", i, m.Rank)
		}
		got = append(got, m.Worker)
	}
	if want := "tcp://a:6 tcp://a:5 tcp://a:8 tcp://a:7 tcp://a:9 tcp://b:1"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestDescribe(t *testing.T) {
	for text, want := range map[string]Member{
		"":            {GPU: -1},
		"3,0":         {GPU: 3},
		" GPU-77, 1 ": {GPU: -1, UUID: "GPU-77"},
		"-1":          {GPU: -1},
	} {
		t.Setenv("CUDA_VISIBLE_DEVICES", text)
		m := describe("tcp://10.0.0.1:80", "w")
		if m.GPU != want.GPU || m.UUID != want.UUID || m.Host != "tcp://10.0.0.1" || m.HostName == "" {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

func TestChoose(t *testing.T) {
	here := prepared{Member: Member{Worker: "w"}, Boot: "a", UCX: ucx.Contact{Address: []byte{1}}}
	there, trusted, none := here, here, here
	there.Boot = "b"
	trusted.Trusted = true
	none.UCX.Address, none.NoUCX = nil, "no libucp"
	far := there
	far.Trusted = true
	container, open := here, trusted
	container.UCX.Home, open.UCX.Home = 7, 7
	for _, tc := range []struct {
		wanted Backend
		ranks  []prepared
		want   string
	}{
		{Auto, []prepared{here, here}, "ucx"},
		{Auto, []prepared{here, none}, "comm"},
		{Auto, []prepared{here, there}, "comm"},
		{Auto, []prepared{trusted, far}, "ucx"},
		{Auto, []prepared{trusted, far, here}, "comm"}, // one host's word is not that of all
		{Auto, []prepared{here, container}, "comm"},    // UCX listens on the loopback interface of each namespace
		{Auto, []prepared{here, open}, "comm"},
		{Auto, []prepared{trusted, open}, "ucx"},
		{UCX, []prepared{here, container}, "network namespaces"},
		{Comm, []prepared{here, here}, "comm"},
		{UCX, []prepared{here, none}, "UCX is not available on worker w: no libucp"},
		{UCX, []prepared{here, there}, "--data-connections=trusted"},
		{"smoke", []prepared{here}, "want"},
	} {
		got, err := choose(tc.wanted, tc.ranks)
		if text := string(got); err == nil && text != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("choose(%q, %v) is %q, %v; want %q", tc.wanted, tc.ranks, got, err, tc.want)
		}
	}
}

func TestRounds(t *testing.T) {
	var r rounds
	for _, n := range []uint32{2, 0, 1, 5, 1<<32 - 1} {
		if !r.take(n) || r.take(n) {
			t.Errorf("round %d", n)
		}
	}
	if r.below != 3 || len(r.more) != 2 {
		t.Errorf("%+v", r)
	}
}

// The words of strangers: hellos and requests.
func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"id":"a","from":2,"to":1}`))
	f.Add([]byte(`{"id":"a","from":1,"to":1}`))
	f.Add([]byte(`{"id":"","from":1e9}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(b)
		if err == nil && (h.ID == "" || len(h.ID) > 64 || h.From <= h.To || h.To < 0 || h.From >= maxRanks) {
			t.Errorf("%q is %+v", b, h)
		}
	})
}

func FuzzTicket(f *testing.F) {
	f.Add("abc.1f")
	f.Add(".")
	f.Add("a.b.c.ffffffff")
	f.Fuzz(func(t *testing.T, s string) {
		id, n, err := Ticket(s).parse()
		if err != nil {
			return
		}
		again, m, err := newTicket(id, n).parse()
		if again != id || m != n || err != nil {
			t.Errorf("%q is %q and %d, then %q and %d, %v", s, id, n, again, m, err)
		}
	})
}

func FuzzRequests(f *testing.F) {
	f.Add(`{"id":"a","ranks":[{"rank":0,"worker":"w","address":"AQ=="}],"timeout":1}`)
	f.Add(`{"id":"a","members":[{"rank":0}],"timeout":-1,"idle":1e300}`)
	f.Fuzz(func(t *testing.T, s string) {
		if in, err := read[formRequest]("form", s); err == nil {
			_, _ = newSession(new(hub), in.ID).check(in, "w")
		}
		if in, err := read[leadRequest]("lead", s); err == nil && leadTime(in) <= 0 {
			t.Errorf("%q has no time", s)
		}
	})
}
