package pickle

import (
	"errors"
	"slices"
)

// errKeyWork ends a load that compares the same long keys too often.
var errKeyWork = limitText(": the comparison of keys is worth no more than 64 times the pickle's size")

// container executes the opcodes of tuples, lists, dicts and sets.
func (l *loader) container(op byte) error {
	switch op {
	case opEmptyTuple:
		return l.push(Tuple{})
	case opTuple1, opTuple2, opTuple3:
		n := int(op) - opTuple1 + 1
		if len(l.stack)-l.fence < n {
			return errUnderflow
		}
		at := len(l.stack) - n
		t := Tuple(slices.Clone(l.stack[at:]))
		l.stack = l.stack[:at]
		return l.pushContainer(t)
	case opEmptyList:
		return l.pushContainer(new(List))
	case opEmptyDict:
		return l.pushContainer(new(Dict))
	case opEmptySet:
		return l.pushContainer(new(Set))
	case opAppend:
		v, err := l.pop()
		if err != nil {
			return err
		}
		return l.appendItems([]Value{v})
	case opSetItem:
		if len(l.stack)-l.fence < 3 {
			return errUnderflow
		}
		at := len(l.stack) - 2
		pair := [2]Value{l.stack[at], l.stack[at+1]}
		l.stack = l.stack[:at]
		return l.setItems(pair[:])
	}
	items, err := l.popMark()
	if err != nil {
		return err
	}
	switch op {
	case opTuple:
		if len(items) == 0 {
			return l.push(Tuple{})
		}
		return l.pushContainer(Tuple(slices.Clone(items)))
	case opList:
		return l.pushContainer(&List{Items: slices.Clone(items)})
	case opFrozenSet:
		unique, err := l.unique(nil, items, make(map[any]struct{}, len(items)))
		if err != nil {
			return err
		}
		return l.pushContainer(&FrozenSet{Items: unique})
	case opDict:
		d := new(Dict)
		if err := l.fill(d, items); err != nil {
			return err
		}
		return l.pushContainer(d)
	case opAppends:
		return l.appendItems(items)
	case opSetItems:
		return l.setItems(items)
	default: // opAddItems
		return l.addItems(items)
	}
}

func (l *loader) pushContainer(v Value) error {
	l.containers++
	return l.push(v)
}

func (l *loader) appendItems(items []Value) error {
	target, err := l.top()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	switch x := target.(type) {
	case *List:
		x.Items = append(x.Items, items...)
	case *Object:
		for _, v := range items {
			x.Steps = append(x.Steps, Step{Kind: AppendItem, Value: v})
		}
	default:
		return errors.New("a " + TypeName(target) + " cannot be appended to")
	}
	return nil
}

func (l *loader) setItems(pairs []Value) error {
	target, err := l.top()
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		return nil
	}
	switch x := target.(type) {
	case *Dict:
		return l.fill(x, pairs)
	case *Object:
		if len(pairs)%2 != 0 {
			return errors.New("key without a value")
		}
		for i := 0; i < len(pairs); i += 2 {
			x.Steps = append(x.Steps, Step{Kind: SetItem, Key: pairs[i], Value: pairs[i+1]})
		}
	default:
		return errors.New("a " + TypeName(target) + " has no items to set")
	}
	return nil
}

func (l *loader) addItems(items []Value) error {
	target, err := l.top()
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	switch x := target.(type) {
	case *Set:
		// Python writes large sets in parts of a thousand items.
		seen := l.sets[x]
		if seen == nil {
			seen = make(map[any]struct{}, len(items))
			if l.sets == nil {
				l.sets = make(map[*Set]map[any]struct{})
			}
			l.sets[x] = seen
		}
		x.Items, err = l.unique(x.Items, items, seen)
		return err
	case *Object:
		for _, v := range items {
			x.Steps = append(x.Steps, Step{Kind: AddItem, Value: v})
		}
	default:
		return errors.New("a " + TypeName(target) + " cannot be added to")
	}
	return nil
}

// key is keyOf within the budget of the whole load for keys.
func (l *loader) key(v Value) (k any, ok bool, err error) {
	switch v.(type) {
	case *List, *Dict, *Set, *ByteArray:
		return nil, false, errors.New("a " + TypeName(v) + " is not hashable and cannot be a key or in a set")
	}
	k, work, ok := keyOf(v, min(keyBudget, l.keyWork))
	if l.keyWork -= work; l.keyWork <= 0 {
		return nil, false, errKeyWork
	}
	return k, ok, nil
}

// fill sets pairs in a dict.
func (l *loader) fill(d *Dict, pairs []Value) error {
	if len(pairs)%2 != 0 {
		return errors.New("key without a value")
	}
	if d.items == nil {
		d.items = make([]Item, 0, len(pairs)/2)
	}
	for i := 0; i < len(pairs); i += 2 {
		k, ok, err := l.key(pairs[i])
		if err != nil {
			return err
		}
		d.set(pairs[i], pairs[i+1], k, ok)
	}
	return nil
}

// unique appends new items to those of a set. seen are the keys of the existing ones.
func (l *loader) unique(have, items []Value, seen map[any]struct{}) ([]Value, error) {
	for _, v := range items {
		k, ok, err := l.key(v)
		if err != nil {
			return nil, err
		}
		if ok {
			if _, there := seen[k]; there {
				continue
			}
			seen[k] = struct{}{}
		}
		have = append(have, v)
	}
	return have, nil
}
