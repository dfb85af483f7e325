//go:build examples

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev"
)

func TestMain(m *testing.M) {
	millstream.Main()
	os.Exit(m.Run())
}

func TestJoin(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	files := map[string]string{
		"orders.csv":    "customer,price\n1,10\n2,20\n1,30\n3,5\n4,1000\n",
		"customers.csv": "customer,country\n1,Peru\n2,Chad\n3,Peru\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	orders, customers := filepath.Join(dir, "orders.csv"), filepath.Join(dir, "customers.csv")
	var out strings.Builder
	if err := run(ctx, &out, []string{orders, customers}); err != nil {
		t.Fatal(err)
	}
	// The order of customer 4, who is not in the table, is in no total.
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(rows, "\n")
	peru, chad := strings.Index(text, "│ Peru │ 45 │ 3 │"), strings.Index(text, "│ Chad │ 20 │ 1 │")
	if peru < 0 || chad < peru || strings.Contains(text, "1000") {
		t.Errorf("got\n%s", out.String())
	}
	if err := run(ctx, &out, []string{orders, filepath.Join(dir, "none.csv")}); err == nil {
		t.Error("a file that does not exist: got no error")
	}
	if err := run(ctx, &out, nil); err == nil {
		t.Error("missing arguments: got no error")
	}
}
