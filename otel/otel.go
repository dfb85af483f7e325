// Package otel records the lives of tasks as OpenTelemetry traces. It is a module of its own, so that programs without
// it link no OpenTelemetry:
//
//	func main() {
//		stop := otel.Install(provider) // before millstream.Main, so that worker processes do the same
//		defer stop()
//		millstream.Main()
//		…
//	}
//
// Spans of a task:
//
//	submit      at the client, a child of the span in the context of Submit; one for all tasks of Map and of a graph
//	queued      at a Millstream scheduler, from the arrival of the task until it is sent to a worker
//	assigned    at the worker, before the function is called: transfers, and the wait for a thread
//	transfer    the transfer of dependencies from other workers, if there was one
//	compute     the call of the function; spans that the function starts with its context are its children
//	stored      the storing of the result
//
// All but the first are children of the first. They have the attributes millstream.key, millstream.function and, on
// workers, millstream.worker, millstream.thread, millstream.status and millstream.nbytes. A process that has not called
// Install adds no spans and passes the trace context on. The trace context travels as the annotation traceparent of
// tasks (W3C Trace Context), through Dask schedulers too; Python clients set it with dask.annotate(traceparent=…).
package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"go.millstream.dev/internal/task/lifetrace"
)

// scope is the name of the instrumentation.
const scope = "go.millstream.dev/otel"

// Install records the tasks of this process as spans of a provider: those that its clients submit, its schedulers
// assign and its workers run. It returns a function that restores what was before. The caller shuts the provider down.
func Install(provider trace.TracerProvider) (restore func()) {
	o := &observer{tracer: provider.Tracer(scope), arrived: map[string]time.Time{}}
	before := lifetrace.Set(o)
	return func() { lifetrace.Set(before) }
}

// observer makes spans.
type observer struct {
	tracer trace.Tracer

	mu      sync.Mutex
	arrived map[string]time.Time // arrival of tasks at a scheduler in this process, by trace context and key
}

// maxArrived bounds arrived: tasks may be released before they run. Beyond it, tasks have no span queued.
const maxArrived = 100_000

var format propagation.TraceContext

// carrier holds one trace context.
type carrier string

func (c *carrier) Get(key string) string {
	if key == lifetrace.Name {
		return string(*c)
	}
	return ""
}

func (c *carrier) Set(key, value string) {
	if key == lifetrace.Name {
		*c = carrier(value)
	}
}

func (c *carrier) Keys() []string { return []string{lifetrace.Name} }

// under returns ctx with the span of a trace context as its remote parent.
func under(ctx context.Context, text string) context.Context {
	c := carrier(text)
	return format.Extract(ctx, &c)
}

func key(k string) attribute.KeyValue      { return attribute.String("millstream.key", k) }
func function(f string) attribute.KeyValue { return attribute.String("millstream.function", f) }

// Submitted implements lifetrace.Observer.
func (o *observer) Submitted(ctx context.Context, name, k string, n int) string {
	attributes := []attribute.KeyValue{function(name), attribute.Int("millstream.tasks", n)}
	if k != "" {
		attributes = append(attributes, key(k))
	}
	ctx, span := o.tracer.Start(ctx, "submit "+name, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attributes...))
	defer span.End()
	if !span.SpanContext().IsSampled() {
		return ""
	}
	var c carrier
	format.Inject(ctx, &c)
	return string(c)
}

// Arrived implements lifetrace.Observer.
func (o *observer) Arrived(text, k string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.arrived) < maxArrived {
		o.arrived[text+k] = at
	}
}

// Assigned implements lifetrace.Observer.
func (o *observer) Assigned(text, k, worker string, at time.Time) {
	o.mu.Lock()
	since, ok := o.arrived[text+k]
	delete(o.arrived, text+k)
	o.mu.Unlock()
	if !ok { // sent again after the loss of a worker
		since = at
	}
	o.span(under(context.Background(), text), "queued", since, at, key(k),
		attribute.String("millstream.worker", worker))
}

// span records a span of the past.
func (o *observer) span(ctx context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, s := o.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	s.End(trace.WithTimestamp(to))
}

// Compute implements lifetrace.Observer.
func (o *observer) Compute(ctx context.Context, text, k, name string) (context.Context, any) {
	ctx, s := o.tracer.Start(under(ctx, text), "compute "+name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(key(k), function(name)))
	return ctx, s
}

// Ran implements lifetrace.Observer.
func (o *observer) Ran(text string, span any, r lifetrace.Run) {
	ctx := under(context.Background(), text)
	common := []attribute.KeyValue{key(r.Key), function(r.Function), attribute.String("millstream.worker", r.Worker)}
	from := r.Ready
	if !r.TransferStart.IsZero() {
		o.span(ctx, "transfer", r.TransferStart, r.TransferStop, common...)
		if r.TransferStart.Before(from) {
			from = r.TransferStart
		}
	}
	o.span(ctx, "assigned", from, r.Start, common...)
	s, ok := span.(trace.Span)
	if !ok { // a Python task, or one that failed before the call
		_, s = o.tracer.Start(ctx, "compute "+r.Function, trace.WithTimestamp(r.Start),
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(key(r.Key), function(r.Function)))
	}
	s.SetAttributes(attribute.String("millstream.worker", r.Worker), attribute.Int64("millstream.thread", r.Thread),
		attribute.String("millstream.status", r.Status), attribute.Int64("millstream.nbytes", r.Bytes))
	if r.Status == "error" {
		s.SetStatus(codes.Error, r.Error)
	}
	s.End(trace.WithTimestamp(r.Stop))
	if r.Status == "OK" {
		o.span(ctx, "stored", r.Stop, r.Stored, append(common, attribute.Int64("millstream.nbytes", r.Bytes))...)
	}
}
