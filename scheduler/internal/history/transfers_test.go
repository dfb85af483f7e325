package history

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"go.millstream.dev/internal/wire/msgpack"
)

func report(transfers []any, more msgpack.Map) msgpack.Map {
	return msgpack.MapOf("millstream", msgpack.MapOf("transfers", transfers, "more-transfers", more))
}

// Reports are added up by scheme and listed; invalid entries are ignored.
func TestTransferReports(t *testing.T) {
	l := NewTransfers(nil, 3)
	l.Add("tcp://a", ReadTransfers(report([]any{
		[]any{10.0, 12.5, int64(100), "tls", "tcp://b", "incoming", int64(3)},
		[]any{10.0, 11.0, int64(50), "tls", "tcp://b", "outgoing", int64(1)},
		[]any{10.0, 11.0, int64(7), "ucxx", "tcp://c", "incoming", int64(1)},
	}, msgpack.MapOf("tls", []any{int64(20), int64(4000), 1.5}))))
	l.Add("tcp://b", ReadTransfers(report([]any{
		"nonsense", []any{1}, nil,
		[]any{10.0, 9.0, int64(1), "tls", "backwards", "incoming", int64(1)},
		[]any{10.0, math.NaN(), int64(1), "tls", "never", "incoming", int64(1)},
		[]any{10.0, 11.0, int64(-1), "tls", "less than nothing", "incoming", int64(1)},
		[]any{10.0, 11.0, int64(math.MaxInt64), "tls", "too much", "incoming", int64(1)},
		[]any{10.0, 11.0, int64(1), "tls\xff" + strings.Repeat("x", 1000), strings.Repeat("y", 1000), "incoming",
			int64(1)},
	}, msgpack.MapOf("tls", []any{int64(-1), int64(1), 1.0}, "ucxx", "nonsense", 7, []any{}, "x",
		[]any{int64(1), int64(1), math.Inf(1)}))))
	l.Add("tcp://b", ReadTransfers(nil))
	l.Add("tcp://b", ReadTransfers("nonsense"))
	if got, want := l.schemes["tls"], (SchemeTotal{Bytes: 4100, Transfers: 21, Seconds: 4}); got != want {
		t.Errorf("tls: got %+v, want %+v", got, want)
	}
	if got, want := l.schemes["ucxx"], (SchemeTotal{Bytes: 7, Transfers: 1, Seconds: 1}); got != want {
		t.Errorf("ucxx: got %+v, want %+v", got, want)
	}
	list := l.list()
	if len(list) != 3 || list[0].Incoming || list[0].Worker != "tcp://a" || list[1].Scheme != "ucxx" ||
		list[2].Worker != "tcp://b" {
		t.Errorf("transfers: got %+v, want the last three", list)
	}
	for scheme := range l.schemes {
		if len(scheme) > maxSchemeName+2 || !utf8.ValidString(scheme) {
			t.Errorf("scheme: got %q, want a short valid one", scheme)
		}
	}
	many := make([]any, 2*maxTransfers)
	for i := range many {
		many[i] = []any{10.0, 11.0, int64(1), "tls", "x", "incoming", int64(1)}
	}
	if got := len(ReadTransfers(report(many, nil)).List); got != maxTransfers {
		t.Errorf("transfers of one heartbeat: got %d, want %d", got, maxTransfers)
	}
	for i := range 200 {
		sum(l.schemes, strings.Repeat("z", i), SchemeTotal{Transfers: 1})
	}
	if len(l.schemes) > maxSchemes {
		t.Errorf("schemes: got %d, want at most %d", len(l.schemes), maxSchemes)
	}
}

// A record has seven parts, of which the last three may be of any type; a shorter one is ignored.
func TestTransferRecords(t *testing.T) {
	whole := []any{10.0, 12.0, int64(5), "tls", "tcp://b", "outgoing", int64(3), "more"}
	for n := range len(whole) + 1 {
		got := ReadTransfers(report([]any{whole[:n]}, nil)).List
		if want := n >= 7; (len(got) == 1) != want {
			t.Errorf("%d parts: got %+v, want it read: %v", n, got, want)
		}
	}
	for i := range 7 {
		bad := append([]any(nil), whole...)
		bad[i] = []any{}
		got := ReadTransfers(report([]any{bad}, nil)).List
		if want := i >= 5; (len(got) == 1) != want {
			t.Errorf("part %d is a list: got %+v, want it read: %v", i, got, want)
		}
		if i == 5 && !got[0].Incoming || i == 6 && got[0].Keys != 0 {
			t.Errorf("part %d is a list: got %+v, want its default", i, got)
		}
	}
	for n := range 4 {
		more := ReadTransfers(report(nil, msgpack.MapOf("tls", []any{int64(1), int64(2), 3.0}[:n]))).more
		if want := n == 3; (len(more) == 1) != want {
			t.Errorf("a sum of %d parts: got %+v, want it read: %v", n, more, want)
		}
	}
	if got, want := ReadTransfers(report([]any{whole}, nil)).List[0], (Transfer{Peer: "tcp://b",
		Scheme: "tls", Transport: "more",
		Bytes: 5, Keys: 3, Start: 10, Duration: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The ring has the latest transfers, oldest first, whatever its length and their number.
func TestTransferRing(t *testing.T) {
	for limit := -1; limit < 5; limit++ {
		l := NewTransfers(nil, limit)
		for n := range 12 {
			l.Add("w", TransferReport{List: []Transfer{{Bytes: int64(n), Incoming: n%2 == 0, Scheme: "tls"}}})
			list := l.list()
			if want := min(max(limit, 0), n+1); len(list) != want {
				t.Fatalf("limit %d: got %d after %d, want %d", limit, len(list), n+1, want)
			}
			for i, x := range list {
				if want := int64(n - len(list) + 1 + i); x.Bytes != want || x.Worker != "w" {
					t.Errorf("limit %d, after %d: transfer %d: got %+v, want number %d", limit, n+1, i, x, want)
				}
			}
			if got := l.Totals()["tls"].Transfers; got != int64(n/2+1) {
				t.Errorf("limit %d: got %d in total after %d, want those of one end", limit, got, n+1)
			}
		}
	}
}
