package topics

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// newTopics returns topics and the messages that they queue, as "op topic".
func newTopics(t *testing.T) (*Topics, *[]string) {
	t.Helper()
	var queued []string
	return New(func(m tracker.Message) {
		var b message.Buffer
		m.Append(&b)
		v, err := msgpack.Decode(b.Body)
		if err != nil {
			t.Fatal(err)
		}
		d := v.(msgpack.Map)
		queued = append(queued, d.GetString("op")+" "+d.GetString("topic"))
	}), &queued
}

// event returns the arguments of Deliver.
func event(topic string, value any) (string, any) { return topic, []any{1.5, value} }

func TestSubscriptions(t *testing.T) {
	ts, queued := newTopics(t)
	var got []string
	note := func(who string) func(Event) {
		return func(e Event) { got = append(got, fmt.Sprint(who, " ", e.Topic, " ", e.Time, " ", e.Value)) }
	}
	stopA := ts.Subscribe("x", note("a"))
	stopB := ts.Subscribe("x", note("b"))
	ts.Deliver(event("x", "one"))
	ts.Deliver(event("y", "unwatched"))
	if want := []string{"a x 1.5 one", "b x 1.5 one"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"subscribe-topic x"}; !slices.Equal(*queued, want) {
		t.Errorf("queued %q, want %q", *queued, want)
	}
	got = nil
	stopA()
	stopA() // a second call has no effect
	ts.Deliver(event("x", "two"))
	if want := []string{"b x 1.5 two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	stopB()
	if want := []string{"subscribe-topic x", "unsubscribe-topic x"}; !slices.Equal(*queued, want) {
		t.Errorf("queued %q, want %q", *queued, want)
	}
	ts.Subscribe("x", note("c"))
	stopB() // does not end the subscription of another
	if want := []string{"subscribe-topic x", "unsubscribe-topic x", "subscribe-topic x"}; !slices.Equal(*queued, want) {
		t.Errorf("queued %q, want %q", *queued, want)
	}
}

func TestResume(t *testing.T) {
	ts, queued := newTopics(t)
	ts.Subscribe("x", func(Event) {})
	ts.Subscribe("x", func(Event) {})
	ts.Subscribe("y", func(Event) {})()
	ts.Subscribe("z", func(Event) {})
	*queued = nil
	ts.Resume()
	slices.Sort(*queued)
	if want := []string{"subscribe-topic x", "subscribe-topic z"}; !slices.Equal(*queued, want) {
		t.Errorf("queued %q, want %q", *queued, want)
	}
}

// Subscribers may subscribe and end subscriptions.
func TestSubscribeWhileDelivering(t *testing.T) {
	ts, _ := newTopics(t)
	var stop func()
	n, inner := 0, 0
	stop = ts.Subscribe("x", func(Event) {
		n++
		stop()
		ts.Subscribe("x", func(Event) { inner++ })
	})
	ts.Deliver(event("x", 1))
	ts.Deliver(event("x", 2))
	if n != 1 || inner != 1 {
		t.Errorf("%d and %d calls, want one of each", n, inner)
	}
}

func TestEventWithoutValue(t *testing.T) {
	ts, _ := newTopics(t)
	var got []Event
	ts.Subscribe("x", func(e Event) { got = append(got, e) })
	for _, v := range []any{nil, "text", []any{1.5}, []any{"no time", "v"}} {
		ts.Deliver("x", v)
	}
	if len(got) != 4 || got[0].Value != nil || got[1].Value != nil || got[2].Value != nil || got[3].Value != "v" ||
		got[3].Time != 0 {
		t.Errorf("got %+v, want four events, the last of value v", got)
	}
}
