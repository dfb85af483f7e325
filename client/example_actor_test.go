package client_test

import (
	"context"
	"fmt"

	"go.millstream.dev/client"
)

var (
	balance = client.NewMethod0(accounts, "balance", func(_ context.Context, a *account) (int, error) {
		return a.balance, nil
	})
	transfer = client.NewMethod2(accounts, "transfer",
		func(ctx context.Context, a *account, n int, to client.ActorHandle[*account]) (int, error) {
			other, err := to.Actor(ctx)
			if err != nil {
				return 0, err
			}
			a.balance -= n
			_, err = deposit.Call(ctx, other, n)
			return a.balance, err
		})
	charge = client.NewMethod3(accounts, "charge",
		func(_ context.Context, a *account, n, fee, floor int) (bool, error) {
			if a.balance-n-fee < floor {
				return false, nil
			}
			a.balance -= n + fee
			return true, nil
		})
	// audit is a task that calls an actor.
	audit = client.Func("audit", func(ctx context.Context, h client.ActorHandle[*account]) (int, error) {
		a, err := h.Actor(ctx)
		if err != nil {
			return 0, err
		}
		return balance.Call(ctx, a)
	})
)

func ExampleActorType_Start() {
	ctx, c, stop := demo()
	defer stop()
	a := accounts.Start(ctx, c, square.Submit(ctx, c, client.Val(10)), client.WithWorkers("worker-1"))
	defer a.Release()
	fmt.Println(a.Wait(ctx))
	fmt.Println(balance.Call(ctx, a))
	// Output:
	// <nil>
	// 100 <nil>
}

func ExampleMethod2_Call() {
	ctx, c, stop := demo()
	defer stop()
	from, to := accounts.Start(ctx, c, client.Val(100)), accounts.Start(ctx, c, client.Val(0))
	defer from.Release()
	defer to.Release()
	fmt.Println(transfer.Call(ctx, from, 30, to.Handle()))
	fmt.Println(balance.Call(ctx, to))
	// Output:
	// 70 <nil>
	// 30 <nil>
}

func ExampleMethod3_Call() {
	ctx, c, stop := demo()
	defer stop()
	a := accounts.Start(ctx, c, client.Val(100))
	defer a.Release()
	fmt.Println(charge.Call(ctx, a, 60, 5, 0))
	fmt.Println(charge.Call(ctx, a, 60, 5, 0))
	// Output:
	// true <nil>
	// false <nil>
}

// A handle is passed to tasks, which call the actor from their workers.
func ExampleActor_Handle() {
	ctx, c, stop := demo()
	defer stop()
	a := accounts.Start(ctx, c, client.Val(7))
	defer a.Release()
	fmt.Println(audit.Submit(ctx, c, client.Val(a.Handle())).Result(ctx))
	// Output: 7 <nil>
}

// Another client of the cluster gets an actor by its key.
func ExampleActorOf() {
	ctx, c, stop := demo()
	defer stop()
	a := accounts.Start(ctx, c, client.Val(7), client.WithKey("savings"))
	defer a.Release()
	same := client.ActorOf[*account](c, a.Key())
	fmt.Println(deposit.Call(ctx, same, 3))
	// Output: 10 <nil>
}
