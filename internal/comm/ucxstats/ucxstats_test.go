package ucxstats

import (
	"reflect"
	"testing"
)

// Counters do not decrease when a worker closes; the numbers of open things do.
func TestTotal(t *testing.T) {
	saved := workers.closed // of an earlier run of the test
	workers.closed = Counters{}
	defer func() { workers.closed = saved }()
	before := Total()
	one := Counters{Ops: map[string]Op{"tag send": {1, 10}}, Errors: 2, EndpointErrors: 3, Messages: 4, MessageBytes: 5,
		MessagesDropped: 6, Progress: 7, SpinsWon: 8, SpinsLost: 9, Parks: 10, InFlight: 11, Endpoints: 12}
	Add("a", func() Counters { return one })
	Add("b", func() Counters { return one })
	want := Counters{Ops: map[string]Op{"tag send": {2, 20}}, Errors: 4, EndpointErrors: 6, Messages: 8,
		MessageBytes: 10, MessagesDropped: 12, Progress: 14, SpinsWon: 16, SpinsLost: 18, Parks: 20, InFlight: 22,
		Endpoints: 24, Workers: 2}
	if got := Total(); !reflect.DeepEqual(got, want) || before.Workers != 0 {
		t.Errorf("two workers: got %+v, want %+v", got, want)
	}
	Remove("a")
	Remove("a") // ignored
	want.InFlight, want.Endpoints, want.Workers = 11, 12, 1
	if got := Total(); !reflect.DeepEqual(got, want) {
		t.Errorf("one worker removed: got %+v, want %+v", got, want)
	}
	Remove("b")
	want.InFlight, want.Endpoints, want.Workers = 0, 0, 0
	if got := Total(); !reflect.DeepEqual(got, want) {
		t.Errorf("both removed: got %+v, want %+v", got, want)
	}
}
