package firstday

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/tools/golist"
)

// fragmentImports are the packages that fragments of the documents may use, by name.
var fragmentImports = map[string]string{
	"arrow": "github.com/apache/arrow-go/v18/arrow", "client": "go.millstream.dev/client",
	"clique": "go.millstream.dev/clique", "cluster": "go.millstream.dev/cluster", "comm": "go.millstream.dev/comm",
	"config": "go.millstream.dev/config", "context": "context", "cuda": "go.millstream.dev/cuda", "errors": "errors",
	"fmt": "fmt", "frame": "go.millstream.dev/frame", "http": "net/http", "kmeans": "go.millstream.dev/frame/kmeans",
	"linear": "go.millstream.dev/frame/linear", "pca": "go.millstream.dev/frame/pca",
	"math": "math", "mem": "go.millstream.dev/mem", "millstream": "go.millstream.dev", "net": "net",
	"secure": "go.millstream.dev/secure", "task": "go.millstream.dev/task", "ucx": "go.millstream.dev/ucx",
	"ucxcomm": "go.millstream.dev/comm/ucxcomm", "wire": "go.millstream.dev/wire",
}

// fragmentScopes are the names that the fragments of a page take as given.
var fragmentScopes = map[string]string{
	"cliques.md": `var c *client.Client; var parts [][]float64; var r *clique.Rank; var weights, grad []float32
		var kernel, other *cuda.Function; var stream *cuda.Stream; var x, sums, y *mem.Buffer; var grid cuda.LaunchConfig`,
	"comms.md":       `var message *wire.Message; var buffer *mem.Buffer`,
	"containers.md":  `var ep *ucx.Endpoint`,
	"dask-client.md": `var c *client.Client`,
	"device-results.md": `var c *client.Client; var first, second string
		var sum *client.Fn1[*wire.DeviceArray, int]`,
	"frames.md": `var c *client.Client; var f, g, df, labels, orders, customers *frame.Frame; var schema *arrow.Schema
		type Params struct{}; type Result struct{}; var params Params; var kernel *cuda.Function
		var localSum func([]arrow.RecordBatch) []float64`,
	"from-ucxx.md": `var w *ucx.Worker`,
	"memory.md": `var device cuda.Device; var pool *mem.Pool; var stream *cuda.Stream
		var results interface{ EvictDevice() int }`,
	"netconn.md": `var w *ucx.Worker; var handler http.Handler`,
	"no-ip.md":   `var worker *ucx.Worker`,
}

// placeholders turn "…", which stands for code of the reader, into Go that fits its place.
var placeholders = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^\t*…$`), `panic("")`},
	{regexp.MustCompile(`\{ … \}`), `{ panic("") }`},
	{regexp.MustCompile(`\{…\}`), `{}`},
	{regexp.MustCompile(`, …\)`), `)`},
	{regexp.MustCompile(`(?ms)^import (?:\(.*?^\)|[^\n]*)$`), ``},
}

// tolerated are complaints about names that a fragment declares for its reader.
var tolerated = regexp.MustCompile(`declared and not used|imported and not used|no new variables on left side`)

// fragments returns the Go blocks of a document that are not whole files.
func fragments(text string) []string {
	var blocks []string
	for _, part := range strings.Split("\n"+text, "\n```go\n")[1:] {
		if block, _, _ := strings.Cut(part, "\n```"); !strings.HasPrefix(block, "package ") {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// fragmentErrors returns what the type checker finds in a fragment.
func fragmentErrors(fragment, scope string, imports types.Importer) []error {
	for _, p := range placeholders {
		fragment = p.re.ReplaceAllString(fragment, p.to)
	}
	var file strings.Builder
	file.WriteString("package fragment\n")
	for name, path := range fragmentImports {
		if name == "context" || regexp.MustCompile(`\b`+name+`\.`).MatchString(fragment+scope) {
			fmt.Fprintf(&file, "import %s %q\n", name, path)
		}
	}
	fmt.Fprintf(&file, "func _(ctx context.Context) {\n%s\n{\n%s\n}\n}\n", scope, fragment)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "fragment.go", file.String(), parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	var found []error
	conf := types.Config{Importer: imports, Error: func(err error) {
		if !tolerated.MatchString(err.Error()) {
			found = append(found, err)
		}
	}}
	_, _ = conf.Check("fragment", fset, []*ast.File{parsed}, nil)
	return found
}

// exportData imports packages from what the go command has compiled.
func exportData(t *testing.T) types.Importer {
	t.Helper()
	paths := slices.Collect(maps.Values(fragmentImports))
	packages, err := golist.Run(repository(), paths, "Export", "-export", "-deps")
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", golist.Exports(packages))
}

// Fragments of Go in the guide are right as far as types go: names exist and calls fit.
func TestFragments(t *testing.T) {
	imports := exportData(t)
	pages, err := filepath.Glob(filepath.Join(repository(), "docs", "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(page)
		for _, fragment := range fragments(string(text)) {
			if strings.Contains(fragment, "grpc.") {
				continue // gRPC is no dependency of this module
			}
			n++
			for _, err := range fragmentErrors(fragment, fragmentScopes[name], imports) {
				t.Errorf("%s: %v in\n%s", name, err, fragment)
			}
		}
	}
	if n < 30 {
		t.Errorf("got %d fragments, want at least 30", n)
	}
}

func TestFragmentErrors(t *testing.T) {
	imports := exportData(t)
	for fragment, want := range map[string]string{
		"x, err := fmt.Println(1)\nx, err := fmt.Println(2)\n…": "",
		"fmt.Printn(1)":            "undefined: fmt.Printn",
		"fmt.Println(y)":           "undefined: y",
		"var n int = fmt.Sprint()": "cannot use fmt.Sprint()",
		"f := func() int { … }":    "",
		"if {":                     "missing condition",
	} {
		got := errors.Join(fragmentErrors(fragment, "", imports)...)
		if got == nil && want != "" || got != nil && (want == "" || !strings.Contains(got.Error(), want)) {
			t.Errorf("%s: got %v, want %q", fragment, got, want)
		}
	}
}
