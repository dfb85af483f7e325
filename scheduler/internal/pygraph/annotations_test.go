package pygraph

import (
	"math/big"
	"reflect"
	"testing"

	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

func TestAnnotations(t *testing.T) {
	list := func(v ...pickle.Value) *pickle.List { return &pickle.List{Items: v} }
	for _, c := range []struct {
		name string
		v    pickle.Value
		want taskgraph.Annotations
		ok   bool
		err  bool
	}{
		{"nothing", new(pickle.Dict), taskgraph.Annotations{}, true, false},
		{"all", pickle.NewDict("workers", list("tcp://a:1", int64(3)), "allow_other_workers", true, "resources",
			pickle.NewDict("GPU", int64(1), "x", 0.5), "priority", int64(-3), "retries", int64(4)),
			taskgraph.Annotations{Workers: []string{"tcp://a:1", "3"}, AllowOtherWorkers: true,
				Resources: map[string]float64{"GPU": 1, "x": 0.5}, Priority: -3, HasPriority: true, Retries: 4}, true,
			false},
		{"other names", pickle.NewDict("restrictions", "a", "loose_restrictions", int64(1)),
			taskgraph.Annotations{Workers: []string{"a"}, AllowOtherWorkers: true}, true, false},
		{"a set", pickle.NewDict("workers", &pickle.Set{Items: []pickle.Value{"a"}}),
			taskgraph.Annotations{Workers: []string{"a"}}, true, false},
		{"a tuple", pickle.NewDict("workers", pickle.Tuple{"a"}), taskgraph.Annotations{Workers: []string{"a"}}, true,
			false},
		{"None", pickle.NewDict("workers", nil, "priority", nil), taskgraph.Annotations{}, true, false},
		{"unknown", pickle.NewDict("mine", pickle.NewDict("a",
			list(int64(1), "b", nil, 1.5, true, []byte("x"), pickle.Tuple{}))), taskgraph.Annotations{}, true, false},
		{"True times", pickle.NewDict("retries", true, "priority", false),
			taskgraph.Annotations{Retries: 1, HasPriority: true}, true, false},
		{"a callable", pickle.NewDict("priority", add), taskgraph.Annotations{}, false, false},
		{"an object", pickle.NewDict("mine", pickle.Call(add)), taskgraph.Annotations{}, false, false},
		{"no dict", list(), taskgraph.Annotations{}, false, false},
		{"no name", pickle.NewDict(int64(1), int64(1)), taskgraph.Annotations{}, false, false},
		{"bad text", pickle.NewDict("mine", "\xed\xa0\x80"), taskgraph.Annotations{}, false, false},
		{"a large int", pickle.NewDict("priority", new(big.Int).Lsh(big.NewInt(1), 70)), taskgraph.Annotations{}, false,
			false},
		{"bad priority", pickle.NewDict("priority", "high"), taskgraph.Annotations{}, false, true},
		{"bad retries", pickle.NewDict("retries", int64(-1)), taskgraph.Annotations{}, false, true},
		{"bad retries text", pickle.NewDict("retries", "3"), taskgraph.Annotations{}, false, true},
		{"bad worker", pickle.NewDict("workers", 1.5), taskgraph.Annotations{}, false, true},
		{"bad resources", pickle.NewDict("resources", list("GPU")), taskgraph.Annotations{}, false, true},
		{"less than nothing", pickle.NewDict("resources", pickle.NewDict("GPU", -1.0)), taskgraph.Annotations{}, false,
			true},
		{"bad flag", pickle.NewDict("allow_other_workers", "yes"), taskgraph.Annotations{}, false, true},
	} {
		got, ok, err := Annotations(c.v)
		if ok != c.ok || (err != nil) != c.err {
			t.Errorf("%s: got %v, error %v", c.name, ok, err)
			continue
		}
		if d := c.v; ok && d.(*pickle.Dict).Len() > 0 {
			back, err := msgpack.Decode(got.Raw)
			if m, isMap := back.(msgpack.Map); err != nil || !isMap || len(m) != d.(*pickle.Dict).Len() {
				t.Errorf("%s: got %v for the worker, error %v", c.name, back, err)
			}
		}
		got.Raw = nil
		if !reflect.DeepEqual(c.want, got) {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
}
