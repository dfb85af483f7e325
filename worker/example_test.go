package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

var greet = client.Func("worker_test.greet", func(_ context.Context, name string) (string, error) {
	return "hello " + name, nil
})

// A whole cluster in one process: a scheduler, a worker and a client.
func ExampleStart() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"}, Logger: quiet})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	w, err := worker.Start(ctx, worker.Config{Scheduler: s.Address(), Name: "miller", Threads: 2,
		LocalDirectory: os.TempDir(), Logger: quiet})
	if err != nil {
		panic(err)
	}
	defer w.Close()
	c, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	text, err := greet.Submit(ctx, c, client.Val("mill")).Result(ctx)
	fmt.Println(w.Name(), w.Status(), text, err)

	err = w.Retire(ctx) // no other worker is left to take its data
	<-w.Done()
	fmt.Println(w.Status())
	// Output:
	// miller running hello mill <nil>
	// closed
}
