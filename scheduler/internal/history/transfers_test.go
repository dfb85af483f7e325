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

// Reports are added up by lane and listed; what no worker of ours says is left out.
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
	if got, want := l.lanes["tls"], (LaneTotal{Bytes: 4100, Transfers: 21, Seconds: 4}); got != want {
		t.Errorf("tls: got %+v, want %+v", got, want)
	}
	if got, want := l.lanes["ucxx"], (LaneTotal{Bytes: 7, Transfers: 1, Seconds: 1}); got != want {
		t.Errorf("ucxx: got %+v, want %+v", got, want)
	}
	list := l.list()
	if len(list) != 3 || list[0].Incoming || list[0].Worker != "tcp://a" || list[1].Lane != "ucxx" ||
		list[2].Worker != "tcp://b" {
		t.Errorf("list %+v, want the last three", list)
	}
	for lane := range l.lanes {
		if len(lane) > maxLaneName+2 || !utf8.ValidString(lane) {
			t.Errorf("lane %q", lane)
		}
	}
	many := make([]any, 2*maxTransfers)
	for i := range many {
		many[i] = []any{10.0, 11.0, int64(1), "tls", "x", "incoming", int64(1)}
	}
	if got := len(ReadTransfers(report(many, nil)).list); got != maxTransfers {
		t.Errorf("%d transfers of one heartbeat, want %d", got, maxTransfers)
	}
	for i := range 200 {
		l.sum(strings.Repeat("z", i), LaneTotal{Transfers: 1})
	}
	if len(l.lanes) > maxLanes {
		t.Errorf("%d lanes, want at most %d", len(l.lanes), maxLanes)
	}
}
