package otel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"go.millstream.dev"
	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/otel"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var (
	fill = millstream.Func("otel.fill", func(ctx context.Context, n int) ([]byte, error) {
		_, s := trace.SpanFromContext(ctx).TracerProvider().Tracer("test").Start(ctx, "inner")
		s.End()
		return make([]byte, n), nil
	})
	count = millstream.Func("otel.count", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
	fail  = millstream.Func("otel.fail", func(_ context.Context, s string) (int, error) { return 0, errors.New(s) })
)

// traced is a cluster whose tasks are recorded.
type traced struct {
	*client.Client
	cluster  *cluster.Cluster
	exporter *tracetest.InMemoryExporter
	tracer   trace.Tracer
}

func start(t *testing.T, sampler sdk.Sampler) *traced {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter), sdk.WithSampler(sampler))
	t.Cleanup(otel.Install(provider))
	c, err := cluster.Local(t.Context(), cluster.Config{Mode: cluster.Goroutines, Protocol: "tcp", Workers: 2,
		Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	cl, err := c.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return &traced{cl, c, exporter, provider.Tracer("test")}
}

// spans waits until the spans of so many runs have been exported: a result may arrive before the last of them.
func (c *traced) spans(t *testing.T, runs int) tracetest.SpanStubs {
	t.Helper()
	for {
		all, ended := c.exporter.GetSpans(), 0
		for _, s := range all {
			if s.Name == "stored" || s.Status.Description != "" { // the last span of a run
				ended++
			}
		}
		if ended >= runs {
			return all
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("got %d spans", len(all))
		}
	}
}

func attributes(s tracetest.SpanStub) string {
	var out []string
	for _, a := range s.Attributes {
		out = append(out, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A task has the spans of its life, in one trace with the span of the caller, in order.
func TestLife(t *testing.T) {
	leak.Check(t)
	c := start(t, sdk.AlwaysSample())
	workers, err := c.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for address := range workers {
		names = append(names, address)
	}
	ctx, root := c.tracer.Start(t.Context(), "root")
	data := fill.Submit(ctx, c.Client, millstream.Val(1<<20), client.WithWorkers(names[0]), client.WithKey("data"))
	n, err := count.Submit(ctx, c.Client, data, client.WithWorkers(names[1]), client.WithKey("size")).Result(ctx)
	if err != nil || n != 1<<20 {
		t.Fatalf("got %d, %v, want %d", n, err, 1<<20)
	}
	root.End()
	all := c.spans(t, 2)
	submits := map[string]tracetest.SpanStub{} // by key
	for _, s := range all {
		if s.SpanContext.TraceID() != root.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		if strings.HasPrefix(s.Name, "submit ") {
			if s.Parent.SpanID() != root.SpanContext().SpanID() {
				t.Errorf("%s: parent %v, want the root", s.Name, s.Parent.SpanID())
			}
			for _, k := range []string{"data", "size"} {
				if strings.Contains(attributes(s), "millstream.key="+k) {
					submits[k] = s
				}
			}
		}
	}
	for k, want := range map[string][]string{
		"data": {"submit otel.fill", "queued", "assigned", "compute otel.fill", "stored"},
		"size": {"submit otel.count", "queued", "transfer", "assigned", "compute otel.count", "stored"},
	} {
		var got []tracetest.SpanStub
		for _, s := range all {
			if strings.Contains(attributes(s), "millstream.key="+k) {
				got = append(got, s)
			}
		}
		slices.SortStableFunc(got, func(a, b tracetest.SpanStub) int { return a.EndTime.Compare(b.EndTime) })
		var list []string
		for _, s := range got {
			list = append(list, s.Name)
			if s.Name != want[0] && s.Parent.SpanID() != submits[k].SpanContext.SpanID() {
				t.Errorf("%s of %s: parent %v, want the span of the submission", s.Name, k, s.Parent.SpanID())
			}
			if s.EndTime.Before(s.StartTime) {
				t.Errorf("%s of %s ends before it starts", s.Name, k)
			}
		}
		slices.Sort(list)
		slices.Sort(want)
		if !slices.Equal(list, want) {
			t.Errorf("%s: got spans %q, want %q", k, list, want)
		}
	}
	for _, s := range all {
		if s.Name == "compute otel.fill" {
			text := attributes(s)
			for _, part := range []string{"millstream.worker=" + names[0], "millstream.status=OK",
				"millstream.nbytes=1048", "millstream.thread=", "millstream.function=otel.fill"} {
				if !strings.Contains(text, part) {
					t.Errorf("attributes of compute: got %s, want %s", text, part)
				}
			}
			for _, inner := range all {
				if inner.Name == "inner" && inner.Parent.SpanID() != s.SpanContext.SpanID() {
					t.Errorf("span of the function: parent %v, want compute", inner.Parent.SpanID())
				}
			}
		}
	}
}

// A failed task has an error in its span, and no stored result. Map is one submission.
func TestFailureAndMap(t *testing.T) {
	leak.Check(t)
	c := start(t, sdk.AlwaysSample())
	if _, err := fail.Submit(t.Context(), c.Client, millstream.Val("no luck")).Result(t.Context()); err == nil {
		t.Fatal("no error")
	}
	futures := count.Map(t.Context(), c.Client, [][]byte{{1}, {1, 2}, {1, 2, 3}})
	for i, f := range futures {
		if n, err := f.Result(t.Context()); err != nil || n != i+1 {
			t.Fatalf("got %d, %v, want %d", n, err, i+1)
		}
	}
	failed, submits, computed := 0, 0, 0
	for _, s := range c.spans(t, 4) {
		switch {
		case s.Name == "compute otel.fail":
			if failed++; !strings.Contains(s.Status.Description, "no luck") {
				t.Errorf("status: got %+v, want the error", s.Status)
			}
		case s.Name == "submit otel.count":
			if submits++; !strings.Contains(attributes(s), "millstream.tasks=3") {
				t.Errorf("attributes: got %s, want 3 tasks", attributes(s))
			}
		case s.Name == "compute otel.count":
			computed++
		}
	}
	if failed != 1 || submits != 1 || computed != 3 {
		t.Errorf("got %d failures, %d submissions and %d runs, want 1, 1 and 3", failed, submits, computed)
	}
}

// Tasks that the sampler drops carry no context, and a process without Install adds nothing.
func TestNotSampled(t *testing.T) {
	leak.Check(t)
	c := start(t, sdk.NeverSample())
	if n, err := count.Submit(t.Context(), c.Client, millstream.Val([]byte{1})).Result(t.Context()); err != nil ||
		n != 1 {
		t.Fatalf("got %d, %v, want 1", n, err)
	}
	otel.Install(sdk.NewTracerProvider(sdk.WithSyncer(c.exporter)))() // installed and restored
	if n, err := count.Submit(t.Context(), c.Client, millstream.Val([]byte{1, 2})).Result(t.Context()); err != nil ||
		n != 2 {
		t.Fatalf("got %d, %v, want 2", n, err)
	}
	if all := c.exporter.GetSpans(); len(all) != 0 {
		t.Errorf("got %d spans, want none", len(all))
	}
}
