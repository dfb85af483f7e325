package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	millstream.Main()
	os.Exit(leak.Main(m))
}

func TestCliqueReduce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, &out, "", 1000); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "4 ranks over ") || !strings.Contains(got, "x 7998000  y 4000") {
		t.Errorf("it says %q", got)
	}
}
