package browser

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/web/build/bundle"
)

// TestReportTiles compares the tiles that the page of a report computes with those of the store.
func TestReportTiles(t *testing.T) {
	s := filled(t, 6, 3000)
	page, err := os.ReadFile(reportFile(t, s))
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(page), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	dir := t.TempDir()
	script, err := bundle.Script("../../internal/dashboard/web", "test/tiles.ts")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join(dir, "tiles.mjs"), filepath.Join(dir, "data")}
	for i, content := range [][]byte{script, []byte(data)} {
		if err := os.WriteFile(args[i], content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := s.Meta()
	var want []string
	for _, level := range []int64{2, 8, 12, 15, 18, 22} {
		for _, part := range []int64{0, 3, 7} {
			for group, to := range map[int]uint32{0: 1024, 1: 7, 3: uint32(m.Rows)} {
				index := (m.First + (m.Last-m.First)*part/8) >> (level + 8)
				args = append(args, fmt.Sprintf("%d,%d,0,%d,%d", level, index, to, group))
				p, err := s.Tile(t.Context(), level, index, spans.Range{To: to}, group)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, hex.EncodeToString(p))
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), "node", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d tiles, want %d", len(got), len(want))
	}
	empty := 0
	for i := range want {
		if want[i] == "" {
			empty++
		}
		if got[i] != want[i] {
			t.Errorf("tile %s:\n got %.200s\nwant %.200s", args[i+2], got[i], want[i])
		}
	}
	if empty > len(want)/2 {
		t.Errorf("got %d empty tiles of %d, want fewer", empty, len(want))
	}
}
