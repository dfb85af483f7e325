package hostile

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/tests/dask/rig"
)

// op is a request or a stream message of a server, as its source has it.
type op struct {
	name   string
	fields []string
}

// surface is what a server takes: requests, and messages on streams of registered peers.
type surface struct {
	requests, messages []op
}

// surfaceOf reads the source of a server and of the packages below its internal folder: ops from calls of Handle, from
// tables of stream handlers and from the cases of stream functions, fields from the rpc tags of the handlers'
// arguments, and those of stream messages from internal/wire/message. A request whose fields are not declared gets
// those that any function of its server reads; so does a message that has none, such as keep-alive.
func surfaceOf(folder string, streams ...string) (s surface, err error) {
	requests, messages, common := map[string][]string{}, map[string][]string{}, map[string]bool{}
	own, err := filepath.Glob(filepath.Join(rig.Root(), folder, "internal", "*"))
	if err != nil {
		return s, err
	}
	shared := []string{filepath.Join(rig.Root(), "internal", "rpc")}
	if folder == "worker" {
		shared = append(shared, filepath.Join(rig.Root(), "internal", "comm", "peernet"))
	}
	for _, dir := range slices.Concat(own, shared, []string{filepath.Join(rig.Root(), folder)}) {
		p, err := readPackage(dir)
		if err != nil {
			return s, err
		}
		for name, fields := range p.requests() {
			requests[name] = fields
		}
		if !slices.Contains(shared, dir) {
			maps.Copy(messages, p.messages(streams))
			for name := range p.read() {
				common[name] = true
			}
		}
	}
	declared, err := readPackage(filepath.Join(rig.Root(), "internal", "wire", "message"))
	if err != nil {
		return s, err
	}
	fields := declared.declared()
	for name := range messages {
		list, ok := fields[name]
		if !ok {
			return s, fmt.Errorf("message %s of %s: internal/wire/message has no struct for it", name, folder)
		}
		messages[name] = list
		for _, f := range list {
			common[f] = true
		}
	}
	list := func(from map[string][]string) (out []op) {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			fields := from[name]
			if len(fields) == 0 {
				fields = slices.Sorted(maps.Keys(common))
			}
			out = append(out, op{name, fields})
		}
		return out
	}
	return surface{list(requests), list(messages)}, nil
}

type sources struct {
	files   []*ast.File
	types   map[string]*ast.StructType
	methods map[string]*ast.FuncDecl // by name, and by Type.name
	values  map[string]ast.Expr      // of variables and constants of the package
}

func readPackage(dir string) (*sources, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &sources{types: map[string]*ast.StructType{}, methods: map[string]*ast.FuncDecl{},
		values: map[string]ast.Expr{}}
	set := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok {
					p.types[n.Name.Name] = st
				}
			case *ast.FuncDecl:
				p.methods[n.Name.Name] = n
				if _, typ := receiver(n); typ != "" {
					p.methods[typ+"."+n.Name.Name] = n
				}
			case *ast.ValueSpec:
				for i := range min(len(n.Names), len(n.Values)) {
					p.values[n.Names[i].Name] = n.Values[i]
				}
			}
			return true
		})
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("no source in %s", dir)
	}
	return p, nil
}

// requests are the ops of Handle(…, "op", handler), of handlers["op"] = handler, and of both in a loop over a table.
func (p *sources) requests() map[string][]string {
	out := map[string][]string{}
	loops := map[string][]string{} // what a variable of a loop stands for
	var self, typ string           // the receiver of the function and its type
	p.inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if key, ok := n.Key.(*ast.Ident); ok {
				loops[key.Name] = append(loops[key.Name], p.table(n.X)...)
			}
			if value, ok := n.Value.(*ast.Ident); ok {
				loops[value.Name] = append(loops[value.Name], p.list(n.X)...)
			}
		case *ast.FuncDecl:
			self, typ = receiver(n)
		case *ast.AssignStmt:
			if at, ok := n.Lhs[0].(*ast.IndexExpr); ok && len(n.Lhs) == 1 {
				if of, ok := at.X.(*ast.SelectorExpr); ok && of.Sel.Name == "handlers" {
					if name, ok := p.text(at.Index); ok {
						out[name] = p.arguments(n.Rhs[0], self, typ)
					}
				}
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Handle" || len(n.Args) < 2 {
				return
			}
			at := n.Args[len(n.Args)-2]
			if v, ok := at.(*ast.Ident); ok {
				for _, name := range loops[v.Name] {
					out[name] = nil
				}
			}
			if name, ok := p.text(at); ok && !strings.Contains(name, "/") { // HTTP has paths
				out[name] = p.arguments(n.Args[len(n.Args)-1], self, typ)
			}
		}
	})
	return out
}

// table are the keys of a map that a loop goes over.
func (p *sources) table(x ast.Expr) (out []string) {
	if v, ok := x.(*ast.Ident); ok {
		x = p.values[v.Name]
	}
	c, ok := x.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if name, ok := p.text(kv.Key); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// list are the strings of a slice that a loop goes over.
func (p *sources) list(x ast.Expr) (out []string) {
	if v, ok := x.(*ast.Ident); ok {
		x = p.values[v.Name]
	}
	if c, ok := x.(*ast.CompositeLit); ok {
		for _, e := range c.Elts {
			if name, ok := p.text(e); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// receiver returns the name of a method's receiver and of its type.
func receiver(d *ast.FuncDecl) (name, typ string) {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return "", ""
	}
	if len(d.Recv.List[0].Names) > 0 {
		name = d.Recv.List[0].Names[0].Name
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := t.(*ast.Ident); ok {
		typ = id.Name
	}
	return name, typ
}

// arguments are the names of the fields that a handler declares: those of its last parameter. self and typ are the
// receiver of the function that registers it, and its type.
func (p *sources) arguments(handler ast.Expr, self, typ string) (out []string) {
	var params *ast.FieldList
	switch h := handler.(type) {
	case *ast.FuncLit:
		params = h.Type.Params
	case *ast.SelectorExpr:
		d := p.methods[h.Sel.Name]
		if x, ok := h.X.(*ast.Ident); ok && x.Name == self && p.methods[typ+"."+h.Sel.Name] != nil {
			d = p.methods[typ+"."+h.Sel.Name]
		}
		if d != nil {
			params = d.Type.Params
		}
	}
	if params == nil || len(params.List) == 0 {
		return nil
	}
	var st *ast.StructType
	switch t := params.List[len(params.List)-1].Type.(type) {
	case *ast.StructType:
		st = t
	case *ast.Ident:
		st = p.types[t.Name]
	}
	if st == nil {
		return nil
	}
	for _, f := range st.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("rpc"), ","); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// messages are the cases of the functions that read streams.
func (p *sources) messages(functions []string) map[string][]string {
	out := map[string][]string{}
	for _, name := range functions {
		d := p.methods[name]
		if d == nil {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				for _, e := range n.List {
					if s, ok := p.text(e); ok {
						out[s] = nil
					}
				}
			case *ast.KeyValueExpr: // a table of handlers
				if s, ok := p.text(n.Key); ok {
					out[s] = nil
				}
			}
			return true
		})
	}
	return out
}

// declared are the fields of the messages that package internal/wire/message declares, by their ops.
func (p *sources) declared() map[string][]string {
	out := map[string][]string{}
	p.inspect(func(n ast.Node) {
		d, ok := n.(*ast.GenDecl)
		if !ok || d.Doc == nil || len(d.Specs) != 1 {
			return
		}
		for _, c := range d.Doc.List {
			op, ok := strings.CutPrefix(c.Text, "//message:op ")
			if !ok {
				continue
			}
			fields := []string{}
			for _, f := range d.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
				tag, _ := strconv.Unquote(f.Tag.Value)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("msg"), ",")
				fields = append(fields, name)
			}
			out[op] = fields
		}
	})
	return out
}

// read are the names of fields that functions read by Get, GetString, Field and the like, and the rpc tags.
func (p *sources) read() map[string]bool {
	out := map[string]bool{}
	p.inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				name = f.Sel.Name
			case *ast.Ident:
				name = f.Name
			}
			if name != "Get" && name != "GetString" && name != "Field" && name != "field" && name != "keyOf" &&
				name != "Has" {
				return
			}
			for _, a := range n.Args {
				if s, ok := p.text(a); ok {
					out[s] = true
				}
			}
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("rpc"), ","); name != "" {
					out[name] = true
				}
			}
		}
	})
	return out
}

func (p *sources) inspect(f func(ast.Node)) {
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			f(n)
			return true
		})
	}
}

// elsewhere are names of ops that other packages declare.
var elsewhere = map[string]string{"dataconn.Op": dataconn.Op, "peernet.ChannelOp": peernet.ChannelOp}

// text is the value of a string, or of the name of one.
func (p *sources) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		if v, ok := p.values[e.Name].(*ast.BasicLit); ok {
			return p.text(v)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			s := elsewhere[x.Name+"."+e.Sel.Name]
			return s, s != ""
		}
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && s != "" && e.Kind == token.STRING
	}
	return "", false
}

// The list of ops that the generated attack uses has what is known to be there.
func TestSurface(t *testing.T) {
	known := map[string][2]int{"scheduler": {96, 27}, "worker": {33, 0}, "cluster": {13, 0}} // requests, messages
	for folder, want := range map[string][]string{
		"scheduler": {"identity", "set_metadata", "restart_workers", "queue_put", "register-worker",
			"performance_report"},
		"worker": {"identity", "get_data", "update_data", "terminate", "millstream-diagnosis", "shuffle_receive",
			dataconn.Op, peernet.ChannelOp},
		"cluster": {"identity", "kill", "instantiate"},
	} {
		s, err := surfaceOf(folder, schedulerStreams...)
		if err != nil {
			t.Fatal(err)
		}
		if least := known[folder]; len(s.requests) < least[0] || len(s.messages) < least[1] {
			t.Errorf("%s: found %d requests and %d messages, want at least %d and %d: surfaceOf misses a form in "+
				"which ops are declared",
				folder, len(s.requests), len(s.messages), least[0], least[1])
		}
		for _, name := range want {
			if !slices.ContainsFunc(s.requests, func(o op) bool { return o.name == name }) {
				t.Errorf("%s: request %s: not among %d", folder, name, len(s.requests))
			}
		}
		if folder == "scheduler" {
			for _, name := range []string{"update-graph", "task-erred", "subscribe-topic", "queue_release", "log-event",
				"add-keys"} {
				if !slices.ContainsFunc(s.messages, func(o op) bool { return o.name == name }) {
					t.Errorf("%s: message %s is missing in %v", folder, name, s.messages)
				}
			}
			m := slices.IndexFunc(s.messages, func(o op) bool { return o.name == "steal-response" })
			if got, want := s.messages[m].fields, []string{"key", "state", "stimulus_id"}; !slices.Equal(got, want) {
				t.Errorf("fields of steal-response: got %v, want %v", got, want)
			}
			i := slices.IndexFunc(s.requests, func(o op) bool { return o.name == "set_metadata" })
			if got, want := s.requests[i].fields, []string{"keys", "value"}; !slices.Equal(got, want) {
				t.Errorf("fields of set_metadata: got %v, want %v", got, want)
			}
		}
	}
}
