// Package profile collects statistical profiles: call stacks of running tasks, and of the other goroutines of a
// process, sampled at intervals and counted in call trees with the form of Dask's profiles.
package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth is the number of frames of a stack that a tree keeps, as in Dask. Deeper frames are counted in the last
	// one that is kept.
	MaxDepth = 100
	// maxNodes and maxBytes bound the nodes of a tree and the text in them. What has no room is counted in the nodes
	// that there are.
	maxNodes = 100_000
	maxBytes = 16 << 20
	// maxText is the length of names, paths and lines in bytes, maxID that of identifiers.
	maxText, maxID = 1 << 10, 2 << 10
	// maxCount bounds the count of a node, so that sums of trees cannot overflow.
	maxCount = 1 << 52
)

// Frame is a function in a call stack.
type Frame struct {
	// ID identifies the function, in the form of Dask: name;file;line.
	ID string
	// Name is the name of the function, File its source file, Line a line of the function that was seen in a stack, and
	// Text the source text of that line or a longer name of the function.
	Name, File, Text string
	Line             int

	call bool // the function of a worker that runs a task
}

// clip returns the first n bytes of a text, without a part of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

func (f *Frame) size() int { return len(f.ID) + len(f.Name) + len(f.File) + len(f.Text) }

var root = &Frame{ID: "root"}

// Tree counts call stacks: each node is a function, and its children are the functions that it called. The zero value
// is an empty tree. A Tree is used by one goroutine at a time.
type Tree struct {
	nodes []node         // parents first; nodes[0] is the root
	index map[edge]int32 // of nodes; nil until it is needed
	bytes int            // of the texts in nodes
}

type node struct {
	frame  *Frame
	parent int32
	depth  int32
	count  int64
}

// edge identifies a child of a node.
type edge struct {
	parent int32
	id     string
}

// Count returns the number of samples in the tree.
func (t *Tree) Count() int64 {
	if len(t.nodes) == 0 {
		return 0
	}
	return t.nodes[0].count
}

// Len returns the number of nodes, without the root.
func (t *Tree) Len() int { return max(0, len(t.nodes)-1) }

// open prepares the tree for child.
func (t *Tree) open() {
	if len(t.nodes) == 0 {
		t.nodes = append(t.nodes, node{frame: root})
	}
	if t.index == nil {
		t.index = make(map[edge]int32, len(t.nodes))
		for i, n := range t.nodes[1:] {
			t.index[edge{n.parent, n.frame.ID}] = int32(i + 1)
		}
	}
}

// seal drops what only a tree that grows needs.
func (t *Tree) seal() { t.index, t.nodes = nil, slices.Clip(t.nodes) }

// child returns the child of a node for the function with an ID, or -1 if there is no room for it. isNew reports
// whether the node was added; its frame is then f.
func (t *Tree) child(parent int32, id string, f *Frame) (i int32, isNew bool) {
	if i, ok := t.index[edge{parent, id}]; ok {
		return i, false
	}
	if t.nodes[parent].depth >= MaxDepth || len(t.nodes) > maxNodes || t.bytes > maxBytes {
		return -1, false
	}
	i = int32(len(t.nodes))
	t.nodes = append(t.nodes, node{frame: f, parent: parent, depth: t.nodes[parent].depth + 1})
	t.index[edge{parent, id}] = i
	return i, true
}

func (t *Tree) add(i int32, n int64) { t.nodes[i].count = min(t.nodes[i].count+n, maxCount) }

// Add counts a stack n times. Its outermost frame comes first.
func (t *Tree) Add(stack []*Frame, n int64) {
	t.open()
	n = max(0, min(n, math.MaxInt32))
	t.add(0, n)
	at := int32(0)
	for _, f := range stack {
		i, isNew := t.child(at, f.ID, f)
		if i < 0 {
			return
		}
		if isNew {
			t.bytes += f.size()
		}
		t.add(i, n)
		at = i
	}
}

// Merge adds the counts of another tree.
func (t *Tree) Merge(o *Tree) {
	if o.Count() == 0 {
		return
	}
	t.open()
	to := make([]int32, len(o.nodes)) // nodes of o in t; -1 for none
	t.add(0, o.nodes[0].count)
	for i, n := range o.nodes[1:] {
		to[i+1] = -1
		if to[n.parent] < 0 {
			continue
		}
		at, isNew := t.child(to[n.parent], n.frame.ID, n.frame)
		if at < 0 {
			continue
		}
		if isNew {
			t.bytes += n.frame.size()
		}
		t.add(at, n.count)
		to[i+1] = at
	}
}

// children returns the children of all nodes, those with higher counts first.
func (t *Tree) children() [][]int32 {
	out := make([][]int32, len(t.nodes))
	for i, n := range t.nodes {
		if i > 0 {
			out[n.parent] = append(out[n.parent], int32(i))
		}
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b int32) int {
			return cmp.Or(cmp.Compare(t.nodes[b].count, t.nodes[a].count),
				cmp.Compare(t.nodes[a].frame.ID, t.nodes[b].frame.ID))
		})
	}
	return out
}

// View is a node of a tree in the form of the dashboard.
type View struct {
	Name     string  `json:"name"`
	File     string  `json:"file"`
	Line     int     `json:"line"`
	Text     string  `json:"text,omitempty"`
	Count    int64   `json:"count"`
	Children []*View `json:"children"`
}

// View returns the tree in the form of the dashboard.
func (t *Tree) View() *View {
	views := make([]View, max(1, len(t.nodes)))
	for i, n := range t.nodes {
		views[i] = View{Name: n.frame.Name, File: n.frame.File, Line: n.frame.Line, Text: n.frame.Text, Count: n.count}
	}
	for i := range views {
		views[i].Children = []*View{}
	}
	for i, list := range t.children() {
		for _, c := range list {
			views[i].Children = append(views[i].Children, &views[c])
		}
	}
	return &views[0]
}

// Prune removes the nodes that were counted less often than a limit.
func (v *View) Prune(limit int64) {
	v.Children = slices.DeleteFunc(v.Children, func(c *View) bool { return c.Count < limit })
	for _, c := range v.Children {
		c.Prune(limit) // at most MaxDepth deep
	}
}
