package millstream

import (
	"context"
	"io"
	"iter"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// Main prepares a program for a cluster whose workers are the same program in other processes. Call it first in main or
// in TestMain. It does not return in a process that was started as a worker. In other processes it returns, and no more
// functions can be registered. It does not read the command line: cli.Serve adds the commands scheduler, worker and
// cuda-worker to a program.
func Main() {
	cluster.Main()
}

// Client is a connection to a scheduler; see package client.
type Client = client.Client

// Future is a handle to the result of a task; see package client.
type Future[T any] = client.Future[T]

// Arg is an argument of a task: a Val, a Future, a List or a Dict.
type Arg[T any] = client.Arg[T]

// Ref is a field of an argument that is replaced by the result of a task.
type Ref[T any] = client.Ref[T]

// AnyFuture is a future of any type; see client.AnyFuture.
type AnyFuture = client.AnyFuture

// ScatterOptions specifies where scattered data is sent; see client.ScatterOptions.
type ScatterOptions = client.ScatterOptions

// Option sets how a task is run: WithRetries, client.WithWorkers, client.WithPriority and others.
type Option = client.Option

// WithRetries sets how often a failed task is run again (default 0); see client.WithRetries.
func WithRetries(n int) Option { return client.WithRetries(n) }

// TaskError is returned for a task that failed, with the error that its worker reported.
type TaskError = client.TaskError

// Cluster is a scheduler in this process with its workers; see package cluster.
type Cluster = cluster.Cluster

// LocalConfig configures the cluster of Local; see cluster.Config.
type LocalConfig = cluster.Config

// The kinds of workers of a local cluster.
const (
	Processes  = cluster.Processes
	Goroutines = cluster.Goroutines
)

// Local starts a cluster on this machine; see cluster.Local.
func Local(ctx context.Context, cfg LocalConfig) (*Cluster, error) { return cluster.Local(ctx, cfg) }

// Connect connects to a scheduler with the settings of the Dask configuration; see cluster.Connect.
func Connect(ctx context.Context, address string) (*Client, error) {
	return cluster.Connect(ctx, address)
}

// ConnectOptions specifies how ConnectWith finds a scheduler; see cluster.ConnectOptions.
type ConnectOptions = cluster.ConnectOptions

// ConnectWith connects to a scheduler with certificates from a folder, or with the scheduler file; see
// cluster.ConnectWith.
func ConnectWith(ctx context.Context, o ConnectOptions) (*Client, error) {
	return cluster.ConnectWith(ctx, o)
}

// Func registers a function of one parameter; see client.Func.
func Func[A, R any](name string, f func(context.Context, A) (R, error)) *client.Fn1[A, R] {
	return client.Func(name, f)
}

// Func0 registers a function without parameters; see client.Func0.
func Func0[R any](name string, f func(context.Context) (R, error)) *client.Fn0[R] {
	return client.Func0(name, f)
}

// Func2 registers a function of two parameters; see client.Func2.
func Func2[A, B, R any](name string, f func(context.Context, A, B) (R, error)) *client.Fn2[A, B, R] {
	return client.Func2(name, f)
}

// Func3 registers a function of three parameters; see client.Func3.
func Func3[A, B, C, R any](name string, f func(context.Context, A, B, C) (R, error)) *client.Fn3[A, B, C, R] {
	return client.Func3(name, f)
}

// Func4 registers a function of four parameters; see client.Func4.
func Func4[A, B, C, D, R any](name string, f func(context.Context, A, B, C, D) (R, error)) *client.Fn4[A, B, C, D, R] {
	return client.Func4(name, f)
}

// Python returns a handle to the Python function named "module:function", such as "numpy:sum"; see client.Python.
func Python[R any](name string) *client.PyFn[R] { return client.Python[R](name) }

// PythonSource returns a handle to the Python function with this source; see client.PythonSource.
func PythonSource[R any](source string) *client.PyFn[R] { return client.PythonSource[R](source) }

// Opaque is a Python value that is not decoded; see client.Opaque.
type Opaque = client.Opaque

// Val returns an argument with a literal value.
func Val[T any](v T) Arg[T] { return client.Val(v) }

// List returns an argument for a parameter of type []T; its elements may be futures.
func List[T any](args ...Arg[T]) Arg[[]T] { return client.List(args...) }

// ListOf returns an argument for a parameter of type []T from futures of its elements.
func ListOf[T any](futures []*Future[T]) Arg[[]T] { return client.ListOf(futures) }

// Dict returns an argument for a parameter of type map[string]T; its values may be futures.
func Dict[T any](args map[string]Arg[T]) Arg[map[string]T] { return client.Dict(args) }

// Gather waits for tasks and returns their results, in order; see client.Gather.
func Gather[T any](ctx context.Context, futures []*Future[T]) ([]T, error) {
	return client.Gather(ctx, futures)
}

// Futures converts futures of one type for ProgressBar; see client.Futures.
func Futures[T any](futures []*Future[T]) []AnyFuture { return client.Futures(futures) }

// AsCompleted iterates over futures in the order in which their tasks end; see client.AsCompleted.
func AsCompleted[T any](ctx context.Context, futures []*Future[T]) iter.Seq2[*Future[T], error] {
	return client.AsCompleted(ctx, futures)
}

// Scatter sends values to workers and returns futures of them; see client.Scatter.
func Scatter[T any](ctx context.Context, c *Client, values []T, o ScatterOptions) ([]*Future[T], error) {
	return client.Scatter(ctx, c, values, o)
}

// TreeReduce combines the results of futures in a tree of tasks; see client.TreeReduce.
func TreeReduce[T any](ctx context.Context, c *Client, combine *client.Fn2[T, T, T], futures []*Future[T],
	opts ...Option) *Future[T] {
	return client.TreeReduce(ctx, c, combine, futures, opts...)
}

// ProgressBar draws the progress of futures until all have ended; see client.ProgressBar.
func ProgressBar(ctx context.Context, w io.Writer, futures ...AnyFuture) error {
	return client.ProgressBar(ctx, w, futures...)
}
