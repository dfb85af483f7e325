package taskbench

import "testing"

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{Cases: []string{"x"}}, {Rounds: -1}, {Leaves: 3}, {DAG: 2}, {Scheduler: []int{0}}, {Workers: 1},
		{ShuffleBytes: -1},
	} {
		if err := o.Complete(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
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
