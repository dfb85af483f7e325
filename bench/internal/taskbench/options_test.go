package taskbench

import (
	"testing"

	"go.millstream.dev/bench/internal/benchtest"
)

func TestOptions(t *testing.T) {
	benchtest.Rejects(t, &Options{Cases: []string{"x"}}, &Options{Rounds: -1}, &Options{Leaves: 3}, &Options{DAG: 2},
		&Options{Scheduler: []int{0}}, &Options{Workers: 1}, &Options{ShuffleBytes: -1})
	o := Options{}
	if err := o.Complete(); err != nil || o.Tasks != 100_000 || o.Leaves != 1<<15 || o.DAG != 50_000 ||
		o.Scheduler[2] != 1_000_000 || o.ShuffleBytes != 2<<30 {
		t.Errorf("%+v, %v", o, err)
	}
	quick := Options{Quick: true, Tasks: 7}
	if err := quick.Complete(); err != nil || quick.Tasks != 7 || quick.DAG != 2000 || quick.Rounds != 1 {
		t.Errorf("%+v, %v", quick, err)
	}
}
