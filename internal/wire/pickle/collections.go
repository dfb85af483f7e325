package pickle

import "strings"

// OrderedDict is Python's collections.OrderedDict.
type OrderedDict struct{ *Dict }

// DefaultDict is Python's collections.defaultdict. Factory is usually a Global.
type DefaultDict struct {
	*Dict
	Factory Value
}

// Counter is Python's collections.Counter.
type Counter struct{ *Dict }

// Deque is Python's collections.deque. MaxLen is -1 if it has none.
type Deque struct {
	Items  []any
	MaxLen int64
}

// Path is one of pathlib's paths.
type Path struct {
	// Class is the class: PosixPath, PurePosixPath, WindowsPath, PureWindowsPath.
	Class string
	// Text is the path as returned by str().
	Text string
}

func setSteps(o *Object, d *Dict) *Object {
	for k, v := range d.All() {
		o.Steps = append(o.Steps, Step{SetItem, k, v})
	}
	return o
}

func (d OrderedDict) pickleTree(int) (Value, error) {
	return setSteps(Call(Global{"collections", "OrderedDict"}), d.Dict), nil
}

func (d DefaultDict) pickleTree(int) (Value, error) {
	return setSteps(Call(Global{"collections", "defaultdict"}, d.Factory), d.Dict), nil
}

func (c Counter) pickleTree(int) (Value, error) {
	if c.Dict == nil {
		return Call(Global{"collections", "Counter"}), nil
	}
	return Call(Global{"collections", "Counter"}, c.Dict), nil
}

func (q Deque) pickleTree(int) (Value, error) {
	o := Call(Global{"collections", "deque"})
	if q.MaxLen >= 0 {
		o.Args = Tuple{Tuple{}, q.MaxLen}
	}
	for _, v := range q.Items {
		o.Steps = append(o.Steps, Step{Kind: AppendItem, Value: v})
	}
	return o, nil
}

func (p Path) pickleTree(int) (Value, error) {
	class := p.Class
	if class == "" {
		class = "PurePosixPath"
	}
	return Call(Global{"pathlib", class}, p.Text), nil
}

// onlySteps reports whether all steps are of one kind.
func (o *Object) onlySteps(kind StepKind) bool {
	for _, s := range o.Steps {
		if s.Kind != kind {
			return false
		}
	}
	return true
}

func buildOrderedDict(d *decoder, o *Object) (any, bool, error) {
	if o.Kind != Reduce || len(o.Args) > 0 || !o.onlySteps(SetItem) {
		return nil, false, nil
	}
	dict, err := d.pairs(o)
	return OrderedDict{dict}, true, err
}

func buildDefaultDict(d *decoder, o *Object) (any, bool, error) {
	if o.Kind != Reduce || len(o.Args) > 1 || !o.onlySteps(SetItem) {
		return nil, false, nil
	}
	var factory Value
	if len(o.Args) == 1 {
		factory = o.Args[0]
	}
	dict, err := d.pairs(o)
	return DefaultDict{dict, factory}, true, err
}

func buildCounter(d *decoder, o *Object) (any, bool, error) {
	if !o.call(1, 1) {
		return nil, false, nil
	}
	counts, ok := o.Args[0].(*Dict)
	if !ok {
		return nil, false, nil
	}
	dict, err := d.dict(counts)
	return Counter{dict}, true, err
}

func buildDeque(d *decoder, o *Object) (any, bool, error) {
	if o.Kind != Reduce || !o.onlySteps(AppendItem) {
		return nil, false, nil
	}
	q := Deque{MaxLen: -1}
	switch len(o.Args) {
	case 0:
	case 2:
		n, ok := o.Args[1].(int64)
		if start, empty := o.Args[0].(Tuple); !ok || !empty || len(start) > 0 || n < 0 {
			return nil, false, nil
		}
		q.MaxLen = n
	default:
		return nil, false, nil
	}
	var err error
	items := o.Items()
	if q.MaxLen >= 0 && int64(len(items)) > q.MaxLen { // the first fell out at the other end
		items = items[int64(len(items))-q.MaxLen:]
	}
	q.Items, err = d.items(items)
	return q, true, err
}

// buildPath joins the parts, of which the first may be a root or drive.
func buildPath(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(0, 1<<16) {
		return nil, false, nil
	}
	g, _ := o.Class()
	sep := "/"
	if strings.Contains(g.Name, "Windows") {
		sep = `\`
	}
	var parts []string
	for i, part := range o.Args {
		s, ok := part.(string)
		if !ok {
			return nil, false, nil
		}
		parts = append(parts, s)
		if i == 0 && strings.HasSuffix(s, sep) && len(o.Args) > 1 {
			parts = []string{strings.TrimSuffix(s, sep)}
		}
	}
	text := strings.Join(parts, sep)
	if text == "" {
		text = "."
	}
	return Path{Class: g.Name, Text: text}, true, nil
}
