package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev"
	"go.millstream.dev/client"
	"go.millstream.dev/internal/device/nvml/nvmltest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// series has the labels of each metric, with their values.
type series map[string]map[string][]string

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// scrape adds the metrics of a server.
func (s series) scrape(t *testing.T, address string) {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", address, r.Status, err)
	}
	for line := range strings.Lines(string(text)) {
		m := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if s[m[1]] == nil {
			s[m[1]] = map[string][]string{}
		}
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(s[m[1]][l[1]], l[2]) {
				s[m[1]][l[1]] = append(s[m[1]][l[1]], l[2])
			}
		}
	}
}

// targetLabels are labels that Prometheus adds.
var targetLabels = []string{"job", "instance"}

// check returns what is wrong with an expression of PromQL: names that no server has, and syntax.
func (s series) check(expr string) (problems []string) {
	tokens, err := tokenize(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var metrics []string
	var grouped []string
	depth := 0
	for i := 0; i < len(tokens); i++ {
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch tok := tokens[i]; {
		case tok == "(":
			depth++
		case tok == ")":
			if depth--; depth < 0 {
				return append(problems, "too many )")
			}
		case slices.Contains([]string{"by", "without", "on", "ignoring"}, tok):
			if next != "(" {
				return append(problems, tok+" without labels")
			}
			for i += 2; i < len(tokens) && tokens[i] != ")"; i++ {
				if tokens[i] != "," {
					grouped = append(grouped, tokens[i])
				}
			}
		case slices.Contains([]string{"and", "or", "unless", "bool"}, tok) || !isName(tok):
		case next == "(" || tok == "sum" || tok == "topk":
			if !slices.Contains([]string{"sum", "rate", "increase", "topk", "histogram_quantile"}, tok) {
				problems = append(problems, "unknown function "+tok)
			}
		default:
			if tok != "up" && s[tok] == nil {
				problems = append(problems, "no metric "+tok)
			}
			metrics = append(metrics, tok)
			if next == "{" {
				i += 2
				for ; i < len(tokens) && tokens[i] != "}"; i += 3 {
					if tokens[i] == "," {
						i++
					}
					if i+2 >= len(tokens) || !strings.Contains("= =~ != !~", tokens[i+1]) {
						return append(problems, "matcher of "+tok)
					}
					problems = append(problems, s.matcher(tok, tokens[i], tokens[i+1], strings.Trim(tokens[i+2], `"`))...)
				}
			}
		}
	}
	if depth != 0 {
		problems = append(problems, "unbalanced (")
	}
	if len(metrics) == 0 {
		problems = append(problems, "no metric")
	}
	for _, label := range grouped {
		known := slices.Contains(targetLabels, label)
		for _, m := range metrics {
			known = known || s[m][label] != nil
		}
		if !known {
			problems = append(problems, "no label "+label)
		}
	}
	return problems
}

// matcher checks the label of a matcher, and that a constant selects something.
func (s series) matcher(metric, label, op, value string) []string {
	if slices.Contains(targetLabels, label) {
		return nil
	}
	values := s[metric][label]
	if values == nil {
		return []string{fmt.Sprintf("no label %s of %s", label, metric)}
	}
	if op == "=" || op == "=~" || op == "!~" {
		for want := range strings.SplitSeq(value, "|") {
			if !slices.Contains(values, want) {
				return []string{fmt.Sprintf("%s of %s is never %q, but %q", label, metric, want, values)}
			}
		}
	}
	return nil
}

func isName(tok string) bool { return regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(tok) }

var token = regexp.MustCompile(`^(?:"[^"]*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+(?:e[0-9]+)?|` +
	`\[(?:\$__rate_interval|[0-9]+[smhd])\]|=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},])`)

// tokenize splits an expression. Ranges such as [5m] are one token.
func tokenize(expr string) (list []string, err error) {
	for rest := strings.TrimSpace(expr); rest != ""; rest = strings.TrimSpace(rest) {
		tok := token.FindString(rest)
		if tok == "" {
			return nil, fmt.Errorf("syntax at %q", rest)
		}
		list = append(list, tok)
		rest = rest[len(tok):]
	}
	return list, nil
}

// The checker finds what it is for.
func TestPromQLCheck(t *testing.T) {
	s := series{"a_total": {"state": {"x", "y"}, "le": {"1"}}, "b": {}}
	for expr, want := range map[string]string{
		`sum by (state) (rate(a_total{state=~"x|y",job="j"}[5m])) > 1e6`: "",
		`histogram_quantile(0.9, sum by (le) (rate(a_total[5m])))`:       "",
		`b / ignoring (state) a_total or b`:                              "",
		`c`:                                                              "no metric c",
		`sum by (other) (a_total)`:                                       "no label other",
		`a_total{other="x"}`:                                             "no label other of a_total",
		`a_total{state="z"}`:                                             "never",
		`sum(a_total`:                                                    "unbalanced",
		`guess(b)`:                                                       "unknown function guess",
		`b[5 m]`:                                                         "syntax",
		`1 > 0`:                                                          "no metric",
	} {
		if got := strings.Join(s.check(expr), "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

var length = millstream.Func("e2e.length", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
var zeros = millstream.Func("e2e.zeros", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })

// Every metric, label and constant in deploy/grafana is one of a running scheduler and worker.
func TestGrafana(t *testing.T) {
	leak.Check(t)
	nvmltest.Use(t)
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	found := scrapeCluster(t)

	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	parse(t, "grafana/rules.yaml", &rules)
	names := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("rule %q: got %+v, want a unique name, a severity and a summary", r.Alert, r)
			}
			names[r.Alert] = true
			for _, p := range found.check(r.Expr) {
				t.Errorf("rule %s: %s: %s", r.Alert, p, r.Expr)
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("got %d rules, want more", len(names))
	}

	text, err := os.ReadFile(filepath.Join(deploy, "grafana/millstream.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids, exprs := map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: number twice, or too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			exprs++
			for _, problem := range found.check(target.Expr) {
				t.Errorf("panel %q: %s: %s", p.Title, problem, target.Expr)
			}
		}
	}
	if exprs < 30 {
		t.Errorf("got %d expressions, want more", exprs)
	}
	variable := regexp.MustCompile(`^label_values\(([a-z_]+)(?:\{.*\})?, (job|instance)\)$`)
	for _, v := range board.Templating.List {
		if m := variable.FindStringSubmatch(v.Definition); v.Definition != "" && (m == nil || found[m[1]] == nil) {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
		}
	}
}

// scrapeCluster returns the metrics of a scheduler and two workers that have run tasks and moved a result.
func scrapeCluster(t *testing.T) series {
	t.Helper()
	ctx := t.Context()
	quiet := slog.New(slog.DiscardHandler)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Logger: quiet,
		Dashboard: "127.0.0.1:0", Journal: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	servers := []string{s.DashboardAddress()}
	var addresses []string
	for range 2 {
		w, err := worker.Start(ctx, worker.Config{Scheduler: s.Address(), Dashboard: "127.0.0.1:0", Logger: quiet,
			Threads: 1, LocalDirectory: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		servers, addresses = append(servers, w.Dashboard()), append(addresses, w.Address())
	}
	c, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	data := zeros.Submit(ctx, c, millstream.Val(1<<20), client.WithWorkers(addresses[0]))
	if n, err := length.Submit(ctx, c, data, client.WithWorkers(addresses[1])).Result(ctx); err != nil || n != 1<<20 {
		t.Fatalf("got %d, %v, want %d", n, err, 1<<20)
	}
	found := series{}
	for _, address := range servers {
		found.scrape(t, address)
	}
	return found
}
