package firstday

import (
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

// TestMistakes runs the program once for each mistake and compares what the user reads.
func TestMistakes(t *testing.T) {
	leak.Check(t)
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no Main", []string{"no-main"}, 1, []string{"call millstream.Main() in the first line of main"}},
		{"Func after Main", []string{"late"}, 2, []string{`function "late" registered at `,
			lineOf(t, `the line of "late"`), "after millstream.Main", "package-level variables"}},
		{"Func before Main", []string{"before"}, 0, []string{"result: 8"}},
		{"the same name twice", []string{"twice"}, 2, []string{`function "square" registered twice, at `,
			lineOf(t, "the line of square") + " and at ", lineOf(t, `the line of "twice"`) + "; rename one"}},
		{"chan parameter", []string{"chan"}, 2, []string{lineOf(t, `the line of "chan"`), "parameter 1 (chan int) " +
			"cannot be sent to another process", "client.NewQueue"}},
		{"func parameter", []string{"func"}, 2, []string{"parameter 1 (func()) cannot be sent to another process"}},
		{"interface parameter", []string{"interface"}, 2, []string{"parameter 1 (error) cannot be sent to another " +
			"process: use a concrete type"}},
		{"works", []string{"fine"}, 0, []string{"result: 49"}},
		{"panic", []string{"panic"}, 1, []string{"crash panicked: runtime error: invalid memory address",
			lineOf(t, "the line of the crash")}},
		{"returned error", []string{"error"}, 1, []string{"x=1: my sentinel", "errors.Is: false"}},
		{"timeout", []string{"timeout"}, 1, []string{"TimeoutError", "limit of 1s"}},
		{"global of main", []string{"global"}, 0, []string{"worker: 1 here: 7"}},
		{"unexported field", []string{"unexported"}, 1, []string{"at .age cannot be serialized: the field is " +
			"not exported"}},
		{"struct keys", []string{"keys"}, 0, []string{"result: map[{2 1}:3]"}},
		{"cycle", []string{"cycle"}, 1, []string{".Next.Next… (cycle)", "the value contains itself",
			"!.Next.Next.Next"}},
		{"any", []string{"any"}, 1, []string{"call task.RegisterType[main.unknown]() in an init function"}},
		{"time zone", []string{"time"}, 0, []string{"true -0500 false"}},
		{"client after Close", []string{"closed-client"}, 1, []string{"client: client closed"}},
		{"cluster after Close", []string{"closed-cluster"}, 1, []string{"cluster: cluster closed"}},
		{"exit code 0", []string{"exit", "0"}, 1, []string{"KilledWorker: 4 workers died",
			"process ended with exit code 0"}},
		{"exit code 1", []string{"exit", "1"}, 1, []string{"KilledWorker: 4 workers died",
			"process ended with exit code 1"}},
		{"exit code 3", []string{"exit", "3"}, 1, []string{"KilledWorker: 4 workers died",
			"process ended with exit code 3"}},
		{"log.Fatal", []string{"fatal"}, 1, []string{"KilledWorker", "last line of standard error",
			"these are my last words"}},
		{"output", []string{"speak"}, 0, []string{"worker 0: fmt hears", " log hears", "INFO slog hears worker=0",
			"result: 5"}},
		{"ignores its context", []string{"deaf"}, 1, []string{"task ignores its context and still runs",
			"function=deaf", "TimeoutError: worker: deaf took longer than its limit of 1s"}},
		{"too much memory", []string{"memory"}, 1, []string{"KilledWorker", "memory"}},
		{"a worker that is not there", []string{"restricted"}, 0,
			[]string{"reason: workers", "restricted to workers or hosts tcp://127.0.0.1:1, none of which has joined"}},
		{"context of Submit", []string{"submit-context"}, 0, []string{"result: 1"}},
		{"large argument", []string{"large"}, 0, []string{"result: 67108864", "large arguments sent through " +
			"the scheduler", "client.Scatter"}},
		{"progress in a pipe", []string{"progress"}, 0, []string{"4 of 4", "result: [1 4 9 16]", "!\r"}},
		{"http address", []string{"connect", "http://127.0.0.1:1"}, 1, []string{`unknown scheme "http"`}},
		{"no address", []string{"connect", ""}, 1, []string{"DASK_SCHEDULER_ADDRESS", "Local starts a cluster here"}},
		{"tls without certificates", []string{"connect", "tls://127.0.0.1:1"}, 1,
			[]string{"no certificates", "ConnectOptions.TLSDir", "--tls-dir"}},
		{"wrong port", []string{"connect", "tcp://127.0.0.1:1"}, 1, []string{"scheduler not reachable; still trying",
			"connection refused"}},
		{"folder without certificates", []string{"connect-with", "tls://127.0.0.1:1", "nowhere", ""}, 1,
			[]string{"nowhere/ca.pem", "no cluster certificates"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "4s")
			run(t, program, tc.args...).wants(t, tc.code, tc.want...)
		})
	}
}
