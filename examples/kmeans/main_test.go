//go:build examples

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev"
)

func TestMain(m *testing.M) {
	millstream.Main()
	os.Exit(m.Run())
}

func TestKMeans(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, &out, "", 3000); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "12000 points on 4 ranks over ") {
		t.Errorf("got %q", out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	if len(lines) != len(truth) {
		t.Fatalf("got centers %q, want %v", lines, truth)
	}
	for i, line := range lines {
		var x, y float64
		if _, err := fmt.Sscan(line, &x, &y); err != nil {
			t.Fatal(err)
		}
		if math.Hypot(x-truth[i][0], y-truth[i][1]) > 0.3 {
			t.Errorf("center %d: got %g %g, want %v", i, x, y, truth[i])
		}
	}
}

func TestLloyd(t *testing.T) {
	m := Model{Centers: [][dims]float64{{0, 0}, {10, 0}, {50, 50}}}
	points := Points{1, 1, 3, 1, 9, 0, 11, 2}
	sums := assign(points, m.Centers)
	if want := []float64{4, 2, 2, 20, 2, 2, 0, 0, 0, 2 + 10 + 1 + 5}; !slices.Equal(sums, want) {
		t.Errorf("got sums %v, want %v", sums, want)
	}
	if got := m.move(sums); got != 4+1+1 {
		t.Errorf("got a move of %g, want 6", got)
	}
	// The last group has no points and stays where it is.
	if want := [][dims]float64{{2, 1}, {10, 1}, {50, 50}}; !slices.Equal(m.Centers, want) || m.Points != 4 {
		t.Errorf("got centers %v of %d points, want %v of 4", m.Centers, m.Points, want)
	}
	if got := m.move(assign(points, m.Centers)); got != 0 {
		t.Errorf("the second iteration moved the centers by %g", got)
	}
}
