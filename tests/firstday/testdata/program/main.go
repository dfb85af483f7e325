// The program of a new user: each verb makes one mistake, or does one thing that works.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/client"
)

var errMine = errors.New("my sentinel")

var threshold = 1

var square = millstream.Func("square", power) // the line of square

var before *client.Fn1[int, int]

var fail = millstream.Func("fail", func(_ context.Context, x int) (int, error) {
	return 0, fmt.Errorf("x=%d: %w", x, errMine)
})

var crash = millstream.Func("crash", func(_ context.Context, x int) (int, error) {
	var p *int
	return *p + x, nil // the line of the crash
})

var exit = millstream.Func("exit", func(_ context.Context, code int) (int, error) {
	os.Exit(code)
	return 0, nil
})

var fatal = millstream.Func("fatal", func(_ context.Context, text string) (int, error) {
	log.Fatal(text)
	return 0, nil
})

var speak = millstream.Func("speak", func(_ context.Context, text string) (int, error) {
	fmt.Println("fmt " + text)
	log.Println("log " + text)
	slog.Info("slog " + text)
	return len(text), nil
})

var spin = millstream.Func("spin", func(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})

var deaf = millstream.Func("deaf", func(_ context.Context, d time.Duration) (int, error) {
	time.Sleep(d)
	return 1, nil
})

var seen = millstream.Func("seen", func(_ context.Context, _ int) (int, error) { return threshold, nil })

type person struct {
	Name string
	age  int
}

var greet = millstream.Func("greet", func(_ context.Context, p person) (string, error) {
	return fmt.Sprint(p.Name, p.age), nil
})

type cell struct{ X, Y int }

var swap = millstream.Func("swap", func(_ context.Context, m map[cell]int) (map[cell]int, error) {
	out := map[cell]int{}
	for k, v := range m {
		out[cell{k.Y, k.X}] = v
	}
	return out, nil
})

type node struct {
	Value int
	Next  *node
}

var walk = millstream.Func("walk", func(_ context.Context, n *node) (int, error) { return n.Value, nil })

type unknown struct{ N int }

var show = millstream.Func("show", func(_ context.Context, v any) (string, error) { return fmt.Sprint(v), nil })

var when = millstream.Func("when", func(_ context.Context, t time.Time) (time.Time, error) { return t, nil })

var eat = millstream.Func("eat", func(ctx context.Context, n int) (int, error) {
	var all [][]byte
	for got := 0; got < n && ctx.Err() == nil; got += 16 << 20 {
		block := make([]byte, 16<<20)
		for i := range block {
			block[i] = 1
		}
		all = append(all, block)
		time.Sleep(10 * time.Millisecond) // the worker looks at its memory now and then
	}
	return len(all), ctx.Err()
})

var length = millstream.Func("length", func(_ context.Context, b []byte) (int, error) { return len(b), nil })

func main() {
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	register(verb)
	if verb != "no-main" {
		millstream.Main()
	}
	if os.Getenv("PROGRAM_WITHOUT_COMMANDS") == "" && verb != "no-main" {
		cli.Serve()
	}
	if verb == "late" {
		millstream.Func("late", func(_ context.Context, x int) (int, error) { return x, nil }) // the line of "late"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, verb, os.Args[2:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// register makes the mistakes that registration finds.
func register(verb string) {
	before = millstream.Func("before", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	switch verb {
	case "twice":
		millstream.Func("square", func(_ context.Context, x int) (int, error) { return x, nil }) // the line of "twice"
	case "chan":
		f := func(_ context.Context, c chan int) (int, error) { return 0, nil }
		millstream.Func("chan", f) // the line of "chan"
	case "func":
		millstream.Func("func", func(_ context.Context, f func()) (int, error) { return 0, nil })
	case "interface":
		millstream.Func("interface", func(_ context.Context, e error) (int, error) { return 0, nil })
	}
}

func run(ctx context.Context, verb string, args []string) error {
	switch verb {
	case "connect":
		c, err := millstream.Connect(ctx, args[0])
		if err != nil {
			return err
		}
		return c.Close()
	case "wait":
		c, err := millstream.Connect(ctx, args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		return shortage(ctx, c, square.Submit(ctx, c, millstream.Val(7)))
	case "connect-with":
		o := millstream.ConnectOptions{Address: args[0], TLSDir: args[1], SchedulerFile: args[2]}
		c, err := millstream.ConnectWith(ctx, o)
		if err != nil {
			return err
		}
		defer c.Close()
		return print(square.Submit(ctx, c, millstream.Val(12)).Result(ctx))
	}
	o := millstream.LocalConfig{Workers: 1, Threads: 1}
	if verb == "memory" {
		o.MemoryLimit = 400 << 20
	}
	cluster, err := millstream.Local(ctx, o)
	if err != nil {
		return err
	}
	defer cluster.Close()
	c, err := cluster.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return mistake(ctx, c, cluster, verb, args)
}

func mistake(ctx context.Context, c *millstream.Client, cluster *millstream.Cluster, verb string, args []string) error {
	switch verb {
	case "before":
		return print(before.Submit(ctx, c, millstream.Val(7)).Result(ctx))
	case "fine":
		return print(square.Submit(ctx, c, millstream.Val(7)).Result(ctx))
	case "error":
		_, err := fail.Submit(ctx, c, millstream.Val(1)).Result(ctx)
		fmt.Println("errors.Is:", errors.Is(err, errMine))
		return err
	case "panic":
		_, err := crash.Submit(ctx, c, millstream.Val(1)).Result(ctx)
		fmt.Printf("%+v\n", err)
		return err
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return print(exit.Submit(ctx, c, millstream.Val(code)).Result(ctx))
	case "fatal":
		return print(fatal.Submit(ctx, c, millstream.Val("these are my last words")).Result(ctx))
	case "speak":
		return print(speak.Submit(ctx, c, millstream.Val("hears")).Result(ctx))
	case "timeout":
		return print(spin.Submit(ctx, c, millstream.Val(1), client.WithTimeout(time.Second)).Result(ctx))
	case "deaf":
		if err := print(deaf.Submit(ctx, c, millstream.Val(15*time.Second),
			client.WithTimeout(time.Second)).Result(ctx)); err != nil {
			return err
		}
		return print(square.Submit(ctx, c, millstream.Val(2)).Result(ctx))
	case "global":
		threshold = 7
		n, err := seen.Submit(ctx, c, millstream.Val(0)).Result(ctx)
		fmt.Println("worker:", n, "here:", threshold)
		return err
	case "unexported":
		return print(greet.Submit(ctx, c, millstream.Val(person{"Ada", 36})).Result(ctx))
	case "keys":
		return print(swap.Submit(ctx, c, millstream.Val(map[cell]int{{1, 2}: 3})).Result(ctx))
	case "cycle":
		n := &node{Value: 1}
		n.Next = n
		return print(walk.Submit(ctx, c, millstream.Val(n)).Result(ctx))
	case "any":
		return print(show.Submit(ctx, c, millstream.Val[any](unknown{1})).Result(ctx))
	case "time":
		zone := time.FixedZone("Home", -5*3600)
		t := time.Date(2026, 3, 1, 12, 0, 0, 123456789, zone)
		got, err := when.Submit(ctx, c, millstream.Val(t)).Result(ctx)
		fmt.Println(got.Equal(t), got.Format("-0700"), strings.TrimSpace(got.Format("MST")) == "Home")
		return err
	case "closed-client":
		if err := c.Close(); err != nil {
			return err
		}
		return print(square.Submit(ctx, c, millstream.Val(7)).Result(ctx))
	case "closed-cluster":
		if err := errors.Join(c.Close(), cluster.Close()); err != nil {
			return err
		}
		_, err := cluster.Client(ctx)
		return err
	case "submit-context":
		short, cancel := context.WithCancel(ctx)
		f := deaf.Submit(short, c, millstream.Val(100*time.Millisecond))
		cancel()
		return print(f.Result(ctx))
	case "large":
		return print(length.Submit(ctx, c, millstream.Val(make([]byte, 64<<20))).Result(ctx))
	case "progress":
		squares := square.Map(ctx, c, []int{1, 2, 3, 4})
		if err := millstream.ProgressBar(ctx, os.Stdout, millstream.Futures(squares)...); err != nil {
			return err
		}
		return print(millstream.Gather(ctx, squares))
	case "restricted":
		return shortage(ctx, c, square.Submit(ctx, c, millstream.Val(7), client.WithWorkers("tcp://127.0.0.1:1")))
	case "memory":
		return print(eat.Submit(ctx, c, millstream.Val(2<<30)).Result(ctx))
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// shortage waits until the scheduler says why no worker runs the task, and ends the wait.
func shortage(ctx context.Context, c *millstream.Client, f *millstream.Future[int]) error {
	for {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if all := c.Shortages(); len(all) > 0 {
			fmt.Println("reason:", all[0].Reason)
			fmt.Println(f)
			return c.Cancel(f)
		}
		if f.IsDone() {
			return print(f.Result(ctx))
		}
	}
}

func print[T any](v T, err error) error {
	if err == nil {
		fmt.Println("result:", v)
	}
	return err
}
