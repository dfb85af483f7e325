package report

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/bench/benchfmt"
)

var figures = []benchfmt.Figure{
	{Bench: "comm", Case: "small", Setting: "tcp", Unit: "us", Ours: 15.72, Peer: "distributed", Theirs: 204,
		Better: benchfmt.Lower},
	{Bench: "comm", Case: "large", Setting: "tcp", Size: 100 << 20, Unit: "GB/s", Ours: 4.2, Peer: "distributed",
		Theirs: 8.4,
		Better: benchfmt.Higher},
	{Bench: "comm", Case: "tasks", Setting: "tcp", Unit: "tasks/s", Ours: 106412, Better: benchfmt.Higher,
		Tasks: 100000},
}

func TestQuantity(t *testing.T) {
	for v, want := range map[float64]string{0: "0 µs", 0.0123456: "0.01235 µs", 15.72: "15.72 µs", 204: "204.0 µs",
		1234.6: "1,235 µs", 106412: "106,400 µs", 1234567: "1,235,000 µs"} {
		if got := Quantity(v, "us"); got != want {
			t.Errorf("Quantity(%v): got %q, want %q", v, got, want)
		}
	}
}

func TestCommand(t *testing.T) {
	got := command([]string{"comm", "--peers", "--record", "x.json", "--json", "--svg=y.svg", "--case", "a b",
		"--rounds", "4"})
	if want := "millstream bench comm --peers --case 'a b' --rounds 4"; got != want {
		t.Errorf("command: got %q, want %q", got, want)
	}
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: A  CPU\nprocessor\t: 1\nmodel name\t: A CPU\n",
		"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA X\nIRQ: 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := machine(root); !strings.HasPrefix(got, "2 × A CPU, ") || !strings.HasSuffix(got, " GiB, NVIDIA X") {
		t.Errorf("machine: got %q, want processors, memory and GPU", got)
	}
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	measured := slices.Clone(figures)
	measured[1].Bar = &benchfmt.Bar{Value: 3, Ratio: true}
	want := New([]string{"comm"}, "best", measured)
	if want.Figures[1] != figures[1] || measured[1].Bar == nil {
		t.Errorf("figures of a record: got %+v, want them without a bar, and the arguments unchanged", want.Figures)
	}
	if err := want.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Machine != want.Machine || got.Command != "millstream bench comm" || got.Date != want.Date ||
		got.Counts != "best" || got.Commit != want.Commit || len(got.Figures) != len(figures) ||
		got.Figures[0] != figures[0] {
		t.Errorf("record after writing and reading: got %+v, want %+v", got, want)
	}
	if err := New(nil, "best", nil).Write(file); err == nil {
		t.Error("record without figures: got no error")
	}
	for _, text := range []string{"", "{}", `{"machine":"x","date":"d","commit":"c","command":"c","figures":[]}`,
		`{"machine":"x","date":"d","commit":"c","command":"c","figures":[{}]}`} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(file); err == nil {
			t.Errorf("record %q: got %+v, want an error", text, r)
		}
	}
}

type text string

func (s text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(s))
	return int64(n), err
}

func TestMake(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("README.md", "# Benchmarks\n\nMethod.\n")
	write("order.txt", "messages\n")
	write("messages.md", "## Messages\n\nWhat is [measured](../adr/x.md).\n")
	record := Record{Machine: "2 × CPU", Date: "2026-01-02", Commit: "abc", Command: "millstream bench comm",
		Figures: figures}
	if err := record.Write(filepath.Join(dir, "messages.json")); err != nil {
		t.Fatal(err)
	}
	record.Figures = figures[2:]
	if err := record.Write(filepath.Join(dir, "messages-tasks.json")); err != nil {
		t.Fatal(err)
	}
	var drawn []int
	plot := func(list []benchfmt.Figure) io.WriterTo { drawn = append(drawn, len(list)); return text("<svg/>") }
	page, err := Make(dir, "plots", plot)
	if err != nil {
		t.Fatal(err)
	}
	want := notice + "# Benchmarks\n\nMethod.\n\n## Messages\n\nWhat is [measured](adr/x.md).\n\n" +
		"| case | setting | tasks | size | Millstream | peer | its figure | times faster |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n" +
		"| `small` | tcp |  |  | 15.72 µs | distributed | 204.0 µs | 12.98 |\n" +
		"| `large` | tcp |  | 100 MiB | 4.200 GB/s | distributed | 8.400 GB/s | 0.5000 |\n" +
		"| `tasks` | tcp | 100,000 |  | 106,400 tasks/s |  |  |  |\n\n" +
		"![Plot of the table](plots/messages.svg)\n\n`millstream bench comm`: 2 × CPU; 2026-01-02, commit abc.\n\n" +
		"| case | setting | tasks | Millstream |\n| --- | --- | --- | --- |\n| `tasks` | tcp | 100,000 | 106,400 tasks/s |\n\n" +
		"![Plot of the table](plots/messages-tasks.svg)\n\n`millstream bench comm`: 2 × CPU; 2026-01-02, commit abc.\n"
	if string(page.Text) != want {
		t.Errorf("page: got\n%s\nwant\n%s", page.Text, want)
	}
	if !slices.Equal(drawn, []int{3, 1}) || string(page.Plots["messages-tasks.svg"]) != "<svg/>" ||
		len(page.Plots) != 2 {
		t.Errorf("plots: drawn %v, got %v", drawn, page.Plots)
	}
	write("stray.json", "{}")
	if _, err := Make(dir, "plots", plot); err == nil || !strings.Contains(err.Error(), "stray.json") {
		t.Errorf("record without a section: got %v, want an error with its name", err)
	}
	write("order.txt", "messages nothing\n")
	if _, err := Make(dir, "plots", plot); err == nil {
		t.Error("section without a text: got no error")
	}
}
