package pickle_test

import (
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/wire/pickle"
)

// What a pickle would do is only written down.
func Example() {
	data, err := pickle.Dump(map[string]any{
		"when": time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
		"call": pickle.Call(pickle.Global{Module: "os", Name: "system"}, "ls"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := pickle.Load(data, nil, pickle.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := pickle.Decode(tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	for key, value := range v.(*pickle.Dict).All() {
		fmt.Println(key, value)
	}
	// Output:
	// call os.system('ls')
	// when 2026-07-01 12:00:00 +0000 UTC
}

func ExampleAppend() {
	shared := &pickle.List{Items: []pickle.Value{"once"}}
	data, err := pickle.Append(nil, pickle.Tuple{shared, shared}, pickle.Options{})
	fmt.Printf("%q %v\n", data, err)
	// Output: "\x80\x04]\x94(\x8c\x04onceeh\x00\x86." <nil>
}

func ExampleNewGraph() {
	add := pickle.Global{Module: "operator", Name: "add"}
	graph := pickle.NewDict(
		"x", pickle.NewDataNode("x", 40),
		"y", pickle.NewTask("y", add, pickle.NewTaskRef("x"), 2),
	)
	expr := pickle.NewGraph(graph, "0123456789abcdef")
	node, _ := graph.Get("y")
	task, _ := pickle.AsTask(node)
	name, _ := pickle.FuncName(task.Func)
	fmt.Println(name, task.Args, "needs", task.Dependencies)
	_, token, ok := pickle.AsGraph(expr)
	fmt.Println(token, ok)
	// Output:
	// operator.add (dask._task_spec.TaskRef('x'), 2) needs [x]
	// 0123456789abcdef true
}

func ExampleNewException() {
	data, err := pickle.Dump(pickle.NewException("builtins", "KeyError", "no such key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := pickle.Load(data, nil, pickle.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, _ := pickle.Decode(tree)
	var e *pickle.Exception
	fmt.Println(errors.As(v.(error), &e), e)
	// Output: true KeyError: 'no such key'
}

func ExampleWalk() {
	tree := pickle.Tuple{1, &pickle.List{Items: []pickle.Value{pickle.Global{Module: "os", Name: "remove"}}}}
	pickle.Walk(tree, func(v pickle.Value) bool {
		if g, ok := v.(pickle.Global); ok {
			fmt.Println("it names", g)
		}
		return true
	})
	// Output: it names os.remove
}
